#pragma once

#include <memory>

#include "check/wrapper.h"

// The interpreter behind follow_wrapper().

namespace passnet::check {

// A value inside the wrapper.
struct Thing {
  enum class Kind {
    kUnknown,
    kLiteral,
    kTensor,
    kSequence,
    kFunction,
    kKernel,
    kLaunch,
    kGlobal,
    kMethod,
    kDict
  };
  Kind kind = Kind::kUnknown;
  Value value;                            // kLiteral
  size_t tensor = 0;                      // kTensor: number in tensors_
  std::vector<Thing> items;               // kSequence; kMethod: the object; kDict: values
  std::vector<Value> keys;                // kDict
  bool is_list = false;                   // kSequence
  const pysrc::Stmt* function = nullptr;  // kFunction, kKernel, kLaunch
  std::string text;  // kGlobal: dotted name; kMethod: its name; kFunction, kKernel: stem of its module

  static Thing unknown() { return {}; }
  static Thing of(Value v);
  static Thing global(std::string dotted);
  static Thing sequence(std::vector<Thing> items, bool is_list);
  std::optional<Value> literal() const;  // kLiteral, or a sequence of literals
};

class WrapperFollower {
 public:
  using Expr = pysrc::Expr;
  using Stmt = pysrc::Stmt;
  using Scope = std::map<std::string, Thing, std::less<>>;

  WrapperFollower(const ModuleTable& modules, VisitedCalls& visited) : modules_(modules), visited_(visited) {}
  WrapperRun run(const std::string& function, const std::vector<WrapperArgument>& arguments);

 private:
  struct Frame {
    std::string stem;
    const Stmt* function = nullptr;
    Scope locals;
    std::optional<Thing> returned;
  };
  struct Arguments {
    std::vector<Thing> args;
    std::vector<std::pair<std::string, Thing>> kwargs;
    const Thing* find(size_t position, std::string_view name) const;
    std::vector<const Thing*> all() const;
  };

  // Statements and names.
  Scope& globals_of(const std::string& stem);
  void module_statement(const Stmt& s, Frame& frame);
  void block(const std::vector<const Stmt*>& body, Frame& frame);
  void assign(const Expr& target, const Thing& value, Frame& frame);
  void import(const Stmt& s, Scope& scope);
  Thing define(const Stmt& s, const std::string& stem) const;
  std::optional<Thing> of_pass_dir(const std::string& dotted);
  std::optional<bool> truth_of(const Expr& e, const Thing& thing);

  // Expressions.
  Thing eval(const Expr& e, Frame& frame);
  Thing name(const Expr& e, Frame& frame);
  Thing attribute(const Expr& e, Frame& frame);
  Thing subscript(const Expr& e, Frame& frame);
  Thing binary(const Expr& e, std::string_view op, const Thing& a, const Thing& b);
  Thing compare(const Expr& e, std::string_view op, const Thing& a, const Thing& b);
  std::optional<std::vector<Thing>> items_of(const Expr& e, const Thing& thing);

  // Calls.
  Thing call(const Expr& e, Frame& frame);
  std::optional<Arguments> arguments_of(const Expr& e, Frame& frame);
  Thing call_function(const Expr& e, const Thing& function, const Arguments& arguments);
  Thing launch(const Expr& e, const Thing& kernel, const Arguments& arguments);
  Thing torch_call(const Expr& e, const std::string& name, const Arguments& arguments);
  Thing allocate_like(const Expr& e, const std::string& name, const Arguments& arguments);
  Thing global_call(const Expr& e, const std::string& name, const Arguments& arguments);
  Thing method_call(const Expr& e, const Thing& object, const std::string& name, const Arguments& arguments);
  Thing tensor_method(const Expr& e, size_t tensor, const std::string& name, const Arguments& arguments);
  Thing tensor_attribute(const Expr& e, size_t tensor, const std::string& name);
  Thing own_view(size_t tensor, const std::string& name, const Arguments& arguments);
  Thing converted(size_t tensor, std::optional<DType> dtype);

  // Outcomes.
  bool halted() const { return halted_; }
  void stop(const Span& span, const std::string& why);
  void raise(const Span& span, std::string_view code, const std::string& message,
             const std::string& hint = {});
  // An operation on a tensor: the end if the guard watches it; otherwise a new tensor of which nothing is known.
  Thing operation(const Expr& e, size_t tensor, const std::string& what, const std::string& instead);
  Thing make(WrapperTensor tensor);
  const std::string& file() const;

  const ModuleTable& modules_;
  VisitedCalls& visited_;
  std::map<std::string, Scope> globals_;
  std::vector<WrapperTensor> tensors_;
  std::vector<const Frame*> frames_;
  WrapperRun out_;
  bool halted_ = false;
  int steps_ = 0;
};

}  // namespace passnet::check
