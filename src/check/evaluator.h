#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pysrc/ast.h"

// The part of Python that pass files are written in, evaluated: straight-line code that builds a graph by
// hand or that the tracer would follow. Everything else ends in `check.not_interpreted`.

namespace passnet::check {

struct KeptForm;

// A graph under construction, by hand or by tracing.
struct GraphBuild {
  Graph graph;
  bool finished = false;  // output() was called
};

struct Object {
  enum class Kind {
    kUnknown,    // something that is not interpreted; `text` says what
    kValue,      // a literal, or a node of `build`
    kGlobal,     // a dotted name: module, function, class
    kFunction,   // defined in the file
    kGraph,      // torch.fx.Graph under construction
    kModule,     // torch.fx.GraphModule over `build`
    kParameter,  // inspect.Parameter named `text`
    kSignature,  // inspect.Signature of `items`
    kSequence    // tuple or list that holds something else than values
  };
  Kind kind = Kind::kUnknown;
  Value value;
  std::string text;
  bool is_list = false;
  std::vector<Object> items;
  const pysrc::Stmt* function = nullptr;
  std::shared_ptr<GraphBuild> build;
  std::shared_ptr<std::optional<std::vector<std::string>>> signature;  // kModule: __signature__'s names

  static Object unknown(std::string what);
  static Object of(Value v);
  static Object global(std::string dotted);
  static Object sequence(std::vector<Object> items, bool is_list);
  bool is_node() const { return kind == Kind::kValue && value.is_node(); }
  // Values and sequences of values as one Value.
  std::optional<Value> as_value() const;
};

class Evaluator {
 public:
  using Expr = pysrc::Expr;
  using Stmt = pysrc::Stmt;
  using Scope = std::map<std::string, Object, std::less<>>;

  explicit Evaluator(const pysrc::Module& module);

  // The module's own statements; what is not understood becomes kUnknown and is no error.
  void run_module();
  const Object* find(std::string_view name) const;
  // A parameterless function of the file, run.
  Result<Object> call(const Stmt& function);
  // Follows a function as the tracer does: parameters are placeholders, what it returns is the output.
  Result<std::shared_ptr<GraphBuild>> trace(const Stmt& function);
  // What replacement_args returns, parameters being node values numbered from 0.
  Result<Object> arguments(const Stmt& function);

 private:
  Result<std::optional<Object>> block(const std::vector<const Stmt*>& body, Scope& scope, bool tracing);
  Status assign(const Expr& target, const Object& value, Scope& scope);
  void import(const Stmt& statement, Scope& scope) const;

  Result<Object> eval(const Expr& e, Scope& scope);
  Result<Object> name(const Expr& e, Scope& scope);
  Result<Object> attribute(const Expr& e, Scope& scope);
  Result<Object> sequence(const Expr& e, Scope& scope);
  Result<Object> unary(const Expr& e, Scope& scope);
  Result<Object> operation(const Expr& e, std::string_view op, const Object& a, const Object& b);
  Result<Object> subscript(const Expr& e, Scope& scope);
  Result<Object> call(const Expr& e, Scope& scope);
  Result<Object> method(const Expr& e, const Object& object, const std::string& name, Scope& scope);
  Result<Object> graph_method(const Expr& e, const Object& object, const std::string& name, Scope& scope);
  Result<Object> global_call(const Expr& e, const std::string& target, Scope& scope);
  Result<Object> comprehension(const Expr& e, Scope& scope);

  struct Arguments {
    std::vector<Object> args;
    std::vector<std::pair<std::string, Object>> kwargs;
    const Object* find(size_t position, std::string_view name) const;
  };
  Result<Arguments> arguments_of(const Expr& e, Scope& scope);
  struct ValueArguments {
    std::vector<Value> args;
    std::vector<std::pair<std::string, Value>> kwargs;
  };
  Result<ValueArguments> values_of(const Expr& e, const Arguments& arguments) const;
  Result<Value> value_of(const Expr& e, const Object& object) const;
  Result<std::vector<Object>> items_of(const Expr& e, const Object& object);

  Object emit(const Expr& e, NodeOp op, std::string target, ValueArguments arguments);
  Status normalise(const Expr& e, std::string& target, ValueArguments& arguments) const;
  Result<bool> keep_form(const Expr& e, const KeptForm& form, ValueArguments& arguments) const;
  Diagnostic refuse(const Expr& e, const std::string& what) const;
  Diagnostic refuse(const Stmt& s, const std::string& what) const;

  const pysrc::Module& module_;
  Scope globals_;
  std::shared_ptr<GraphBuild> tracing_;  // the graph that operations on nodes go to
  bool building_arguments_ = false;
  int depth_ = 0;
  std::deque<pysrc::Module> fragments_;  // sources of comprehensions, parsed by themselves
};

}  // namespace passnet::check
