#include "check/public_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <fmt/format.h>

#include "check/syntax.h"

namespace passnet::check {

namespace {

constexpr std::array<std::string_view, 4> kBlockedModules = {"torch.nn", "torch.nn.functional", "torch.ops",
                                                             "torch.autograd"};
constexpr std::array<std::string_view, 9> kAllowedCalls = {
    "torch.empty",     "torch.empty_like", "torch.zeros",     "torch.zeros_like", "torch.ones",
    "torch.ones_like", "torch.full",       "torch.full_like", "torch.as_tensor"};

bool blocked_module(std::string_view name) {
  return std::any_of(kBlockedModules.begin(), kBlockedModules.end(), [&](std::string_view blocked) {
    return name == blocked || (name.starts_with(blocked) && name[blocked.size()] == '.');
  });
}

// Dotted names may be written with spaces or line breaks inside.
std::string dotted(const SyntaxNode& name) {
  std::string out;
  for (const SyntaxNode& part : name.children()) out += (out.empty() ? "" : ".") + std::string(part.text());
  return out.empty() ? std::string(name.text()) : out;
}

struct ImportedName {
  std::string name, alias;  // alias: the name itself where there is no `as`
  bool renamed = false;
};

std::vector<ImportedName> imported_names(const SyntaxNode& statement) {
  std::vector<ImportedName> out;
  for (const SyntaxNode& item : statement.children_of_field("name")) {
    if (item.is("aliased_import")) {
      out.push_back({dotted(item.field("name")), std::string(item.field("alias").text()), true});
    } else {
      out.push_back({dotted(item), dotted(item), false});
    }
  }
  return out;
}

// The module of `from M import ...`; empty for relative imports without one. Leading dots do not count.
std::string from_module(const SyntaxNode& statement) {
  SyntaxNode module = statement.field("module_name");
  if (module.is("relative_import")) {
    for (const SyntaxNode& part : module.children()) {
      if (part.is("dotted_name")) return dotted(part);
    }
    return {};
  }
  return dotted(module);
}

class PublicRules {
 public:
  explicit PublicRules(const pysrc::SyntaxTree& tree)
      : source_(tree.source()), root_(ts_tree_root_node(tree.get()), &source_) {}

  std::vector<Diagnostic> run() {
    const std::vector<SyntaxNode> all = walk(root_, [](const SyntaxNode&) { return true; });
    check_imports(all);
    check_assignments(all);
    collect_aliases(all);
    for (const SyntaxNode& node : walk(root_, [&](const SyntaxNode& n) { return !exempt(n); })) {
      if (node.is("call")) check_call(node);
    }
    return std::move(found_);
  }

 private:
  void add(std::string_view code, const SyntaxNode& at, std::string message, std::string_view hint) {
    found_.push_back(user_error(code, fmt::format("Line {}: {}", at.line(), message))
                         .at(source_.name(), at.span())
                         .with_hint(hint));
  }

  void check_imports(const std::vector<SyntaxNode>& all) {
    constexpr std::string_view kHint =
        "import torch alone; inside pattern write the full dotted name, torch.nn.functional.gelu(x)";
    for (const SyntaxNode& node : all) {
      if (node.is("import_statement")) {
        for (const ImportedName& name : imported_names(node)) {
          if (blocked_module(name.name))
            add("source.import", node, fmt::format("blocked import '{}'", name.name), kHint);
        }
      } else if (node.is("import_from_statement")) {
        const std::string module = from_module(node);
        if (blocked_module(module)) {
          add("source.from_import", node, fmt::format("blocked from-import 'from {} import ...'", module),
              kHint);
        }
      }
    }
  }

  // The value of a plain assignment, behind further targets (`a = b = value`); null for annotated ones.
  static SyntaxNode assigned_value(const SyntaxNode& node) {
    if (!node.is("assignment") || !node.field("type").null()) return {};
    SyntaxNode value = node.field("right");
    while (value.is("assignment")) value = value.field("right");
    return value.bare();
  }

  // The inner part of `a = b = value` is no statement of its own.
  std::vector<SyntaxNode> assignments(const std::vector<SyntaxNode>& all) const {
    std::vector<SyntaxNode> out, inner;
    for (const SyntaxNode& node : all) {
      if (!node.is("assignment")) continue;
      if (node.field("right").is("assignment")) inner.push_back(node.field("right"));
      if (std::find(inner.begin(), inner.end(), node) == inner.end()) out.push_back(node);
    }
    return out;
  }

  void check_assignments(const std::vector<SyntaxNode>& all) {
    for (const SyntaxNode& node : assignments(all)) {
      const SyntaxNode value = assigned_value(node);
      if (!value.is("attribute")) continue;
      const std::string text = chain_text(value);
      if (blocked_module(text)) {
        add("source.alias", node, fmt::format("blocked submodule alias '{}'", text),
            "write the full dotted name at each use");
      }
    }
  }

  void collect_aliases(const std::vector<SyntaxNode>& all) {
    for (const SyntaxNode& node : all) {
      if (node.is("import_statement")) {
        for (const ImportedName& name : imported_names(node)) {
          if (name.renamed) aliases_[name.alias] = name.name;
        }
      } else if (node.is("import_from_statement")) {
        const std::string module = from_module(node);
        if (module.empty()) continue;
        for (const ImportedName& name : imported_names(node)) aliases_[name.alias] = module + "." + name.name;
      }
      const SyntaxNode value = assigned_value(node);
      if (!value.is("attribute")) continue;
      const std::string text = chain_text(value);
      if (text.empty()) continue;
      for (SyntaxNode target = node; target.is("assignment"); target = target.field("right")) {
        const SyntaxNode left = target.field("left").bare();
        if (left.is("identifier")) aliases_[std::string(left.text())] = text;
      }
    }
  }

  // Only plain functions of these names at the top level; their decorators belong to them.
  bool exempt(const SyntaxNode& node) const {
    const SyntaxNode function = node.is("decorated_definition") ? node.field("definition") : node;
    if (!function.is("function_definition") || function.has_token("async")) return false;
    const std::string_view name = function.field("name").text();
    if (name != "pattern" && name != "replacement_args") return false;
    const std::vector<SyntaxNode> top = root_.children();
    return std::find(top.begin(), top.end(), node) != top.end();
  }

  void check_call(const SyntaxNode& node) {
    const std::string target = chain_text(node.field("function"));
    if (target.empty()) return;
    const size_t dot = target.find('.');
    const std::string first = target.substr(0, dot);
    const auto alias = aliases_.find(first);
    const std::string resolved = alias == aliases_.end()
                                     ? target
                                     : alias->second + (dot == std::string::npos ? "" : target.substr(dot));
    if (!resolved.starts_with("torch")) return;
    if (std::find(kAllowedCalls.begin(), kAllowedCalls.end(), resolved) != kAllowedCalls.end()) return;
    add("source.call", node, fmt::format("blocked call '{}' (resolves to '{}')", target, resolved),
        "outside pattern and replacement_args only torch.empty, zeros, ones, full (and _like) and as_tensor "
        "may be "
        "called; compute in a Triton kernel");
  }

  const SourceBuffer& source_;
  SyntaxNode root_;
  std::map<std::string, std::string> aliases_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> public_violations(const pysrc::SyntaxTree& tree) { return PublicRules(tree).run(); }

}  // namespace passnet::check
