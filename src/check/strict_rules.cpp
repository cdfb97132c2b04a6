#include "check/strict_rules.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "check/rules.h"
#include "check/syntax.h"
#include "ir/dtype.h"

namespace passnet::check {

namespace {

template <size_t N>
bool among(const std::string_view (&table)[N], std::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

constexpr std::string_view kImports[] = {"torch", "triton", "triton.language", "inspect", "operator", "math"};
constexpr std::string_view kFromModules[] = {
    "triton",         "triton.language",         "triton.language.extra", "triton.language.extra.cuda",
    "triton.runtime", "pass_dir._shared_kernels"};
constexpr std::string_view kAllocators[] = {"torch.empty",      "torch.empty_like", "torch.zeros",
                                            "torch.zeros_like", "torch.ones",       "torch.ones_like",
                                            "torch.full",       "torch.full_like",  "torch.as_tensor"};
constexpr std::string_view kTorchNames[] = {"torch.contiguous_format", "torch.channels_last",
                                            "torch.channels_last_3d",  "torch.preserve_format",
                                            "torch.strided",           "torch.fx.wrap"};
constexpr std::string_view kBuiltins[] = {"len",    "range",        "min",  "max",   "int",        "float",
                                          "bool",   "tuple",        "list", "dict",  "abs",        "sum",
                                          "sorted", "enumerate",    "zip",  "round", "ValueError", "str",
                                          "slice",  "RuntimeError", "all",  "any",   "reversed",   "hasattr"};
// Names by which code reaches what the rules keep from it.
constexpr std::string_view kBannedNames[] = {
    "eval",     "exec",       "compile",    "open",       "getattr",    "setattr",     "delattr",
    "globals",  "locals",     "vars",       "dir",        "type",       "object",      "super",
    "id",       "hash",       "input",      "breakpoint", "memoryview", "classmethod", "staticmethod",
    "property", "isinstance", "issubclass", "callable"};
// What a handler may name: a handler of everything would also take what the run-time guard raises.
constexpr std::string_view kExceptions[] = {"AttributeError", "ImportError", "KeyError", "IndexError"};
// Methods on values that are not modules: metadata of tensors, views of the wrapper's own buffers (the
// run-time guard tells them from views of arguments), dictionaries of compiled kernels.
constexpr std::string_view kMethods[] = {
    "data_ptr",      "stride",         "size",       "dim",    "numel",   "element_size",
    "is_contiguous", "storage_offset", "get_device", "to",     "get",     "setdefault",
    "items",         "keys",           "values",     "append", "permute", "view",
    "transpose",     "unsqueeze",      "squeeze",    "run",    "warmup",  "is_floating_point",
    "join"};
constexpr std::string_view kStatements[] = {"class_definition",
                                            "with_statement",
                                            "while_statement",
                                            "global_statement",
                                            "nonlocal_statement",
                                            "delete_statement",
                                            "match_statement",
                                            "type_alias_statement",
                                            "print_statement",
                                            "exec_statement",
                                            "lambda",
                                            "await",
                                            "yield",
                                            "named_expression"};
constexpr std::string_view kKernelStatements[] = {"while_statement", "named_expression"};

enum class Context { kModule, kKernel, kPattern, kWrapper };

// A function that triton compiles.
bool is_kernel(const SyntaxNode& node) {
  if (!node.is("decorated_definition")) return false;
  for (const SyntaxNode& part : node.children()) {
    if (!part.is("decorator")) continue;
    for (const SyntaxNode& child : part.children()) {
      const std::string name = chain_text(child.is("call") ? child.field("function") : child);
      if (name == "triton.jit") return true;
    }
  }
  return false;
}

class StrictRules {
 public:
  explicit StrictRules(const pysrc::SyntaxTree& tree)
      : source_(tree.source()), root_(ts_tree_root_node(tree.get()), &source_) {}

  std::vector<Diagnostic> run() {
    collect_bound(root_);
    for (const SyntaxNode& statement : root_.children()) top_level(statement);
    std::stable_sort(found_.begin(), found_.end(), [](const Diagnostic& a, const Diagnostic& b) {
      return std::pair(a.span.line, a.span.col) < std::pair(b.span.line, b.span.col);
    });
    return std::move(found_);
  }

 private:
  void add(std::string_view code, const SyntaxNode& at, const std::string& message) {
    found_.push_back(broken(code, message).at(source_.name(), at.span()));
  }

  // Every name that the file binds: a call of one of them reaches nothing that is not in the file.
  void collect_bound(const SyntaxNode& root) {
    for (const SyntaxNode& node : walk(root, [](const SyntaxNode&) { return true; })) {
      if (node.is("function_definition")) bound_.insert(std::string(node.field("name").text()));
      if (node.is("decorated_definition"))
        bound_.insert(std::string(node.field("definition").field("name").text()));
      if (node.is("assignment") || node.is("for_statement") || node.is("for_in_clause"))
        bind(node.field("left"));
      if (node.is("parameters")) {
        for (const SyntaxNode& parameter : node.children()) bind(parameter);
      }
      if (node.is("import_from_statement")) {
        for (const SyntaxNode& name : node.children_of_field("name")) {
          const SyntaxNode alias = name.field("alias");
          imported_.insert(std::string((alias.null() ? name : alias).text()));
        }
      }
    }
  }

  void bind(const SyntaxNode& target) {
    if (target.is("identifier")) {
      bound_.insert(std::string(target.text()));
    } else if (target.is("pattern_list") || target.is("tuple_pattern") || target.is("list_pattern") ||
               target.is("list_splat_pattern") || target.is("typed_parameter")) {
      for (const SyntaxNode& child : target.children()) bind(child);
    } else if (target.is("default_parameter") || target.is("typed_default_parameter")) {
      bind(target.field("name"));
    }
  }

  static SyntaxNode definition(const SyntaxNode& node) {
    const SyntaxNode function = node.is("decorated_definition") ? node.field("definition") : node;
    return function.is("function_definition") ? function : SyntaxNode();
  }

  void top_level(const SyntaxNode& statement) {
    if (statement.is("import_statement") || statement.is("import_from_statement") ||
        statement.is("future_import_statement")) {
      return import(statement);
    }
    if (const SyntaxNode function = definition(statement); !function.null()) {
      if (statement.is("decorated_definition")) decorators(statement);
      const std::string_view name = function.field("name").text();
      const bool pattern =
          (name == "pattern" || name == "replacement_args") && !statement.is("decorated_definition");
      if (pattern) top_patterns_.insert(std::string(name));
      return visit_function(function, is_kernel(statement) ? Context::kKernel
                                      : pattern            ? Context::kPattern
                                                           : Context::kWrapper);
    }
    if (statement.is("expression_statement")) {
      const std::vector<SyntaxNode> parts = statement.children();
      if (parts.size() == 1 && parts[0].is("assignment")) return module_assignment(parts[0]);
      if (parts.size() == 1 && (parts[0].is("string") || parts[0].is("concatenated_string"))) return;
    }
    add("strict.statement", statement,
        "the module does more than import, define functions and assign constants");
  }

  void import(const SyntaxNode& node) {
    if (node.is("import_statement")) {
      for (const SyntaxNode& item : node.children_of_field("name")) {
        const SyntaxNode name = item.is("aliased_import") ? item.field("name") : item;
        if (!among(kImports, name.text()))
          add("strict.import", node, fmt::format("import of {}", name.text()));
      }
      return;
    }
    const std::string_view module = node.field("module_name").text();
    const std::vector<SyntaxNode> parts = node.children();
    const bool star = std::any_of(parts.begin(), parts.end(),
                                  [](const SyntaxNode& part) { return part.is("wildcard_import"); });
    if (!among(kFromModules, module) || star) {
      add("strict.import", node,
          fmt::format("import from {}{}", module.empty() ? "__future__" : module,
                      star ? " of everything" : ""));
    }
  }

  void decorators(const SyntaxNode& node) {
    static constexpr std::string_view kAllowed[] = {"triton.jit", "torch.fx.wrap", "triton.autotune",
                                                    "triton.heuristics"};
    for (const SyntaxNode& part : node.children()) {
      if (!part.is("decorator")) continue;
      for (const SyntaxNode& child : part.children()) {
        const std::string name = chain_text(child.is("call") ? child.field("function") : child);
        const bool wrap_call = name == "torch.fx.wrap" && child.is("call");
        if (!among(kAllowed, name) || wrap_call) {
          add("strict.decorator", part,
              fmt::format("the decorator {}", name.empty() ? child.text() : std::string_view(name)));
        } else if (child.is("call")) {
          visit(child.field("arguments"), Context::kKernel);
        }
      }
    }
  }

  // Constants, caches that start empty, functions under another name, and `pattern = pattern()`.
  void module_assignment(const SyntaxNode& node) {
    SyntaxNode value = node;
    for (; value.is("assignment"); value = value.field("right")) {
      const SyntaxNode left = value.field("left");
      // An entry of a table that this module made, from a literal.
      const bool entry = left.is("subscript") && left.field("value").is("identifier") &&
                         bound_.contains(std::string(left.field("value").text())) &&
                         !value.field("right").is("call");
      if (!left.is("identifier") && !left.is("pattern_list") && !entry) {
        add("strict.state", node, fmt::format("assignment to {}", value.field("left").text()));
        return;
      }
    }
    value = value.bare();
    if (value.is("call")) {
      const std::string target = chain_text(value.field("function"));
      // The graph that a function of this file builds; nothing else has to be computed while loading.
      if (!top_patterns_.contains(target) && !target.starts_with("triton.") &&
          !(bound_.contains(target) && node.field("left").text() == "pattern")) {
        add("strict.state", node,
            fmt::format("a module-level call of {}", target.empty() ? "something" : target));
      }
      return;
    }
    if (value.is("binary_operator")) {
      for (const SyntaxNode& part : value.children()) module_value(node, part);
      return;
    }
    module_value(node, value);
  }

  void module_value(const SyntaxNode& statement, const SyntaxNode& value) {
    for (const SyntaxNode& node : walk(value, [](const SyntaxNode&) { return true; })) {
      if (node.is("call") || node.is("lambda") || node.is("await") ||
          node.type().ends_with("comprehension") || node.is("generator_expression")) {
        add("strict.state", statement,
            fmt::format("a module-level value that is computed: {}", value.text()));
        return;
      }
    }
    visit(value, Context::kModule);
  }

  void visit_function(const SyntaxNode& function, Context context) {
    if (function.has_token("async")) add("strict.statement", function, "an async function");
    for (const SyntaxNode& parameter : function.field("parameters").children()) {
      const SyntaxNode value = parameter.field("value");
      if (value.is("list") || value.is("dictionary") || value.is("set") || value.is("call")) {
        add("strict.state", parameter, "a default value that keeps state from call to call");
      }
    }
    if (context == Context::kWrapper) collect_tensors(function);
    visit(function.field("body"), context);
  }

  // Names that may hold tensors: parameters, and what allocators gave.
  void collect_tensors(const SyntaxNode& function) {
    tensors_.clear();
    for (const SyntaxNode& parameter : function.field("parameters").children()) {
      for (const SyntaxNode& node : walk(parameter, [](const SyntaxNode&) { return true; })) {
        if (node.is("identifier")) tensors_.insert(std::string(node.text()));
      }
    }
    for (const SyntaxNode& node : walk(function.field("body"), [](const SyntaxNode&) { return true; })) {
      if (!node.is("assignment")) continue;
      const SyntaxNode value = node.field("right").bare();
      if (value.is("call") && among(kAllocators, chain_text(value.field("function"))) &&
          node.field("left").is("identifier")) {
        tensors_.insert(std::string(node.field("left").text()));
      }
    }
  }

  void visit(const SyntaxNode& node, Context context) {
    if (node.null()) return;
    const std::string_view type = node.type();
    if (among(kStatements, type) && !(context == Context::kKernel && among(kKernelStatements, type))) {
      std::string name(type);
      std::replace(name.begin(), name.end(), '_', ' ');
      add("strict.statement", node, fmt::format("a {}", name));
      return;
    }
    if (type == "import_statement" || type == "import_from_statement") {
      add("strict.import", node, "an import that is not at the top of the module");
      return;
    }
    if (type == "identifier") return name(node);
    if (type == "attribute") return attribute(node, context);
    if (type == "call") {
      call(node, context);
      return;
    }
    if (type == "try_statement") handlers(node);
    if (type == "keyword_argument") return visit(node.field("value"), context);
    if (type == "assignment" || type == "augmented_assignment") return assignment(node, context);
    if (type == "decorated_definition") decorators(node);
    if (const SyntaxNode function = definition(node); !function.null())
      return visit(function.field("body"), context);
    for (const SyntaxNode& child : node.children()) visit(child, context);
  }

  void name(const SyntaxNode& node) {
    const std::string_view text = node.text();
    if (text.starts_with("__") || (among(kBannedNames, text) && !bound_.contains(std::string(text)))) {
      add("strict.name", node, fmt::format("the name {}", text));
    }
  }

  void attribute(const SyntaxNode& node, Context context) {
    const std::string_view last = node.field("attribute").text();
    if (last.starts_with("__")) {
      add("strict.attribute", node, fmt::format("the attribute {}", last));
      return;
    }
    const std::string chain = chain_text(node);
    if (context != Context::kPattern && (chain.starts_with("torch.") || chain == "torch")) {
      const std::string_view rest = std::string_view(chain).substr(std::min<size_t>(chain.size(), 6));
      if (!among(kAllocators, chain) && !among(kTorchNames, chain) && !parse_dtype(rest)) {
        add("strict.attribute", node, fmt::format("{} outside pattern", chain));
      }
      return;
    }
    if (context == Context::kWrapper && (chain.starts_with("operator.") || chain.starts_with("inspect."))) {
      add("strict.attribute", node, fmt::format("{} outside pattern", chain));
      return;
    }
    visit(node.field("object"), context);
  }

  void handlers(const SyntaxNode& node) {
    for (const SyntaxNode& clause : node.children()) {
      if (!clause.is("except_clause") && !clause.is("except_group_clause")) continue;
      std::vector<SyntaxNode> caught;
      for (const SyntaxNode& child : clause.children()) {
        if (child.is("block")) continue;
        const SyntaxNode bare = child.bare();
        if (bare.is("tuple")) {
          for (const SyntaxNode& item : bare.children()) caught.push_back(item);
        } else {
          caught.push_back(bare);
        }
      }
      const bool named =
          !caught.empty() && std::all_of(caught.begin(), caught.end(), [](const SyntaxNode& item) {
            return item.is("identifier") && among(kExceptions, item.text());
          });
      if (!named) add("strict.statement", clause, "a handler of other exceptions than lookups that fail");
    }
  }

  void assignment(const SyntaxNode& node, Context context) {
    const SyntaxNode left = node.field("left");
    if (!left.is("attribute")) {
      visit(left, context);
      visit(node.field("right"), context);
    }
    if (left.is("attribute")) {
      // __signature__ in pattern is the sanctioned use.
      if (context == Context::kPattern && left.field("attribute").text() == "__signature__") {
        visit(left.field("object"), context);
        visit(node.field("right"), context);
        return;
      }
      add("strict.state", node, fmt::format("assignment to the attribute {}", left.text()));
      return visit(node.field("right"), context);
    }
    if (!left.is("subscript") || context != Context::kWrapper) return;
    // Into a cache only what is no tensor: a bare name of one, or a container with one in it.
    std::vector<SyntaxNode> values = {node.field("right").bare()};
    while (!values.empty()) {
      const SyntaxNode value = values.back();
      values.pop_back();
      if (value.is("tuple") || value.is("list") || value.is("expression_list") ||
          value.is("conditional_expression")) {
        for (const SyntaxNode& child : value.children()) values.push_back(child.bare());
      } else if (value.is("identifier") && tensors_.contains(std::string(value.text()))) {
        add("strict.state", node,
            fmt::format("{} may be a tensor; a cache keeps kernels, functions and integers only",
                        value.text()));
        return;
      }
    }
  }

  // `x.T` is a node whose target is getattr itself: a pattern that builds it says so, and calls nothing.
  static bool is_attribute_target(const SyntaxNode& argument, const SyntaxNode& call, Context context) {
    const SyntaxNode callee = call.field("function").bare();
    return context == Context::kPattern && argument.is("identifier") && argument.text() == "getattr" &&
           callee.is("attribute") && callee.field("attribute").text() == "call_function" &&
           call.field("arguments").children().front() == argument;
  }

  void call(const SyntaxNode& node, Context context) {
    const SyntaxNode callee = node.field("function").bare();
    const SyntaxNode arguments = node.field("arguments");
    if (arguments.is("generator_expression")) {
      visit(arguments, context);
    } else {
      for (const SyntaxNode& argument : arguments.children()) {
        if (!is_attribute_target(argument, node, context)) visit(argument, context);
      }
    }
    if (context == Context::kPattern) return visit(callee, context);
    if (callee.is("identifier")) {
      const std::string text(callee.text());
      if (text.starts_with("__") || among(kBannedNames, text)) return name(callee);
      if (!bound_.contains(text) && !imported_.contains(text) && !among(kBuiltins, text)) {
        add("strict.call", node, fmt::format("a call of {}, which this file does not define", text));
      }
      return;
    }
    if (callee.is("subscript")) {
      // kernel[grid](...)
      const SyntaxNode kernel = callee.field("value").bare();
      if (!kernel.is("identifier"))
        add("strict.call", node, "a launch of something that is no kernel by its name");
      for (const SyntaxNode& child : callee.children()) visit(child, context);
      return;
    }
    if (!callee.is("attribute")) {
      add("strict.call", node, fmt::format("a call of a {}", callee.type()));
      return visit(callee, context);
    }
    const std::string chain = chain_text(callee);
    const std::string first = chain.substr(0, chain.find('.'));
    if (first == "torch" || first == "operator" || first == "inspect") {
      if (!among(kAllocators, chain)) add("strict.call", node, fmt::format("a call of {}", chain));
      return;
    }
    if (first == "triton" || first == "tl" || first == "math" || first == "libdevice" ||
        imported_.contains(first))
      return;
    if (context == Context::kKernel) return visit(callee, context);
    const std::string_view method = callee.field("attribute").text();
    if (!among(kMethods, method)) add("strict.call", node, fmt::format("the method {}", method));
    visit(callee.field("object"), context);
  }

  const SourceBuffer& source_;
  SyntaxNode root_;
  std::set<std::string> bound_, imported_, top_patterns_, tensors_;
  std::vector<Diagnostic> found_;
};

// Methods that compute or copy; on a poisoned argument each ends the call.
constexpr std::string_view kComputing[] = {
    "contiguous", "clone",   "add",   "add_",         "sub",    "sub_",   "mul",
    "mul_",       "div",     "div_",  "matmul",       "mm",     "bmm",    "sum",
    "mean",       "softmax", "relu",  "sigmoid",      "exp",    "sqrt",   "reshape",
    "flatten",    "copy_",   "fill_", "zero_",        "item",   "tolist", "detach",
    "expand",     "repeat",  "chunk", "index_select", "gather", "split",  "masked_fill"};

}  // namespace

std::vector<Diagnostic> strict_violations(const pysrc::SyntaxTree& tree) { return StrictRules(tree).run(); }

std::vector<Diagnostic> wrapper_findings(const pysrc::SyntaxTree& tree) {
  const SourceBuffer& source = tree.source();
  const SyntaxNode root(ts_tree_root_node(tree.get()), &source);
  std::vector<Diagnostic> out;
  for (const SyntaxNode& statement : root.children()) {
    if (!statement.is("function_definition") && !statement.is("decorated_definition")) continue;
    const SyntaxNode function =
        statement.is("decorated_definition") ? statement.field("definition") : statement;
    const std::string_view name = function.field("name").text();
    if (name == "pattern" || name == "replacement_args") continue;
    if (is_kernel(statement)) continue;
    for (const SyntaxNode& node : walk(function, [](const SyntaxNode&) { return true; })) {
      if (!node.is("call")) continue;
      const SyntaxNode callee = node.field("function").bare();
      if (!callee.is("attribute") || !among(kComputing, callee.field("attribute").text())) continue;
      const std::string chain = chain_text(callee);
      if (chain.starts_with("torch.") || chain.starts_with("tl.") || chain.starts_with("math.") ||
          chain.starts_with("operator.")) {
        continue;
      }
      out.push_back(broken("wrapper.maybe_operation", fmt::format("{} calls .{}() outside a kernel", name,
                                                                  callee.field("attribute").text()))
                        .at(source.name(), node.span()));
    }
  }
  return out;
}

}  // namespace passnet::check
