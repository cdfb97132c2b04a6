#include "check/pattern_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace passnet::check {

namespace {

std::string tuple_text(const std::vector<std::string>& items) {
  if (items.size() == 1) return "(" + items[0] + ",)";
  return fmt::format("({})", fmt::join(items, ", "));
}

}  // namespace

Result<std::string> node_text(const Node& node, const std::vector<std::string>& names,
                              std::set<std::string>& modules) {
  const std::string& name = names[static_cast<size_t>(node.id)];
  const auto text = [&](const Value& v) {
    return python_text(v, [&](NodeId id) { return names[static_cast<size_t>(id)]; });
  };
  std::vector<std::string> args, kwargs;
  for (const Value& v : node.args) args.push_back(text(v));
  for (const auto& [k, v] : node.kwargs) kwargs.push_back(fmt::format("\"{}\": {}", k, text(v)));
  const std::string call = kwargs.empty()
                               ? tuple_text(args)
                               : fmt::format("{}, {{{}}}", tuple_text(args), fmt::join(kwargs, ", "));
  switch (node.op) {
    case NodeOp::kPlaceholder: return fmt::format("{0} = graph.placeholder(\"{0}\")", name);
    case NodeOp::kCallFunction: {
      const std::string root = node.target.substr(0, node.target.find('.'));
      std::string target = node.target;
      if (root == "builtins") {
        target = target.substr(root.size() + 1);
      } else if (root == "operator" || root == "math") {
        modules.insert(root);
      } else if (root != "torch") {
        return user_error("pattern.target",
                          fmt::format("a pass file may not import {} for {}", root, node.target))
            .with_hint("Leave the node out of the region.");
      }
      return fmt::format("{} = graph.call_function({}, {})", name, target, call);
    }
    case NodeOp::kCallMethod:
      return fmt::format("{} = graph.call_method(\"{}\", {})", name, node.target, call);
    case NodeOp::kGetAttr:
      return user_error("pattern.get_attr", "a pattern cannot hold the attribute " + node.target)
          .with_hint("Make it an input of the region.");
    case NodeOp::kOutput: return fmt::format("graph.output({})", args.empty() ? "None" : args[0]);
  }
  return internal_error("pattern.node", "a node of no kind");
}

Result<PatternText> pattern_text(const Graph& pattern, const std::string& title,
                                 const std::vector<std::string>& names) {
  PatternText out;
  out.definition = "def pattern():\n    graph = torch.fx.Graph()\n";
  std::vector<std::string> quoted;
  for (const auto& node : pattern.nodes()) {
    PN_TRY(const std::string line, node_text(*node, names, out.modules));
    out.definition += "    " + line + "\n";
    if (node->op != NodeOp::kPlaceholder) continue;
    out.parameters.push_back(names[static_cast<size_t>(node->id)]);
    quoted.push_back("\"" + out.parameters.back() + "\"");
  }
  out.definition += fmt::format("    module = torch.fx.GraphModule({{}}, graph, \"{}\")\n", title);
  out.definition += "    module.__signature__ = inspect.Signature([\n";
  out.definition += "        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)\n";
  out.definition +=
      fmt::format("        for name in {}\n    ])\n    return module\n\n\n", tuple_text(quoted));
  out.definition += "pattern = pattern()\n";
  return out;
}

}  // namespace passnet::check
