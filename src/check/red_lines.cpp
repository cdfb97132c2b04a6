#include "check/red_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "check/rules.h"
#include "check/syntax.h"

namespace passnet::check {

namespace {

template <size_t N>
bool among(const std::string_view (&table)[N], std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

// Functions that turn text into code or names into objects.
constexpr std::string_view kLaundering[] = {"eval", "exec", "compile", "__import__"};
constexpr std::string_view kLaunderingModules[] = {"importlib", "builtins", "sys",  "ctypes",
                                                   "marshal",   "pickle",   "runpy"};
// Parts of torch that switch dispatch, by the last name of a chain.
constexpr std::string_view kNoDispatch[] = {
    "no_dispatch",           "_DisableTorchDispatch",        "_disable_torch_dispatch",
    "DisableTorchFunction",  "DisableTorchFunctionSubclass", "__torch_dispatch__",
    "__torch_function__",    "PosionDispatchTensor",         "as_subclass",
    "_pop_mode_temporarily", "_disable_current_modes",       "_python_dispatch"};
constexpr std::string_view kHarness[] = {"pass_bench", "graph_net",    "graph_net_bench",
                                         "passnet",    "pass_manager", "test_compiler"};
constexpr std::string_view kFrames[] = {"_getframe",     "currentframe", "stack",     "get_objects",
                                        "get_referrers", "settrace",     "setprofile"};

bool is_or_below(std::string_view name, std::string_view module) {
  return name == module ||
         (name.starts_with(module) && name.size() > module.size() && name[module.size()] == '.');
}

class RedLines {
 public:
  explicit RedLines(const pysrc::SyntaxTree& tree)
      : source_(tree.source()), root_(ts_tree_root_node(tree.get()), &source_) {}

  std::vector<Diagnostic> run() {
    const std::vector<SyntaxNode> all = walk(root_, [](const SyntaxNode&) { return true; });
    for (const SyntaxNode& node : all) import(node);
    for (const SyntaxNode& node : all) {
      if (node.is("call")) call(node);
      if (node.is("attribute")) attribute(node);
      if (node.is("assignment") || node.is("augmented_assignment")) assignment(node);
      if (node.is("identifier") && among(kNoDispatch, node.text()))
        add("red_line.no_dispatch", node, fmt::format("the name {}", node.text()));
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return std::pair(a.span.line, a.span.col) < std::pair(b.span.line, b.span.col);
    });
    return std::move(found_);
  }

 private:
  // One finding a line and rule is enough.
  void add(std::string_view code, const SyntaxNode& at, const std::string& message) {
    for (const Diagnostic& d : found_) {
      if (d.code == code && d.span.line == at.span().line) return;
    }
    found_.push_back(broken(code, message).at(source_.name(), at.span()));
  }

  void module(const SyntaxNode& at, const std::string& name) {
    for (const std::string_view harness : kHarness) {
      if (is_or_below(name, harness)) add("red_line.harness", at, fmt::format("import of {}", name));
    }
    for (const std::string_view other : kLaunderingModules) {
      if (is_or_below(name, other)) add("red_line.laundering", at, fmt::format("import of {}", name));
    }
    if (name == "gc" || name.starts_with("torch.utils._python_dispatch") || name.starts_with("torch._C"))
      add("red_line.no_dispatch", at, fmt::format("import of {}", name));
  }

  void import(const SyntaxNode& node) {
    if (node.is("import_statement")) {
      for (const SyntaxNode& item : node.children_of_field("name")) {
        const SyntaxNode name = item.is("aliased_import") ? item.field("name") : item;
        const std::string dotted(name.text());
        module(node, dotted);
        if (item.is("aliased_import"))
          names_[std::string(item.field("alias").text())] = dotted;
        else
          names_[dotted.substr(0, dotted.find('.'))] = dotted.substr(0, dotted.find('.'));
      }
    } else if (node.is("import_from_statement")) {
      const std::string from(node.field("module_name").text());
      module(node, from);
      for (const SyntaxNode& item : node.children_of_field("name")) {
        const SyntaxNode name = item.is("aliased_import") ? item.field("name") : item;
        if (!from.starts_with("pass_dir"))
          names_[std::string((item.is("aliased_import") ? item.field("alias") : item).text())] =
              from + "." + std::string(name.text());
      }
    }
  }

  // The dotted name behind an imported one; empty if the chain begins with something else.
  std::string resolved(const SyntaxNode& expression) const {
    const std::string chain = chain_text(expression);
    if (chain.empty()) return {};
    const size_t dot = std::min(chain.find('.'), chain.size());
    const auto at = names_.find(chain.substr(0, dot));
    return at == names_.end() ? std::string() : at->second + chain.substr(dot);
  }

  void call(const SyntaxNode& node) {
    const SyntaxNode callee = node.field("function").bare();
    if (!callee.is("identifier")) return;
    const std::string name(callee.text());
    if (among(kLaundering, name)) return add("red_line.laundering", node, fmt::format("a call of {}", name));
    if (name != "getattr" && name != "setattr" && name != "delattr" && name != "vars") return;
    const std::vector<SyntaxNode> arguments = node.field("arguments").children();
    if (arguments.empty()) return;
    const std::string object = resolved(arguments[0].bare());
    if (object.empty()) return;
    if (name == "getattr" || name == "vars")
      add("red_line.laundering", node, fmt::format("{} of {}", name, object));
    else
      add("red_line.monkeypatch", node, fmt::format("{} on {}", name, object));
  }

  void attribute(const SyntaxNode& node) {
    const std::string_view last = node.field("attribute").text();
    if (among(kNoDispatch, last))
      return add("red_line.no_dispatch", node, fmt::format("the attribute {}", last));
    const std::string whole = resolved(node);
    if (whole.starts_with("torch.__dict__") || whole.ends_with(".__dict__") || whole == "sys.modules")
      add("red_line.laundering", node, whole);
    if (among(kFrames, last) &&
        (whole.starts_with("inspect.") || whole.starts_with("sys.") || whole.starts_with("gc.")))
      add("red_line.harness", node, whole);
  }

  void assignment(const SyntaxNode& node) {
    const SyntaxNode left = node.field("left").bare();
    if (!left.is("attribute")) return;
    const std::string whole = resolved(left);
    if (!whole.empty()) add("red_line.monkeypatch", node, fmt::format("assignment to {}", whole));
  }

  const SourceBuffer& source_;
  SyntaxNode root_;
  std::map<std::string, std::string> names_;  // bound by imports: local name -> dotted
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> red_lines(const pysrc::SyntaxTree& tree) { return RedLines(tree).run(); }

}  // namespace passnet::check
