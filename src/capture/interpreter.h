#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/capture.h"
#include "capture/folding.h"
#include "capture/targets.h"

namespace passnet {

// Evaluates forward statement by statement as dynamo traces it: operations on tensors become nodes of a draft graph,
// everything else is computed here. finish() makes of the draft what a backend receives.
class Interpreter {
 public:
  Interpreter(const pysrc::Module& module, const std::vector<InputMeta>* inputs,
              const CaptureOptions& options);

  Result<Captured> run();

 private:
  using Expr = pysrc::Expr;
  using Stmt = pysrc::Stmt;
  enum class Flow { kNext, kReturned };
  struct Arguments {
    std::vector<Value> args;
    std::vector<std::pair<std::string, Value>> kwargs;

    const Value* keyword(std::string_view name) const;
  };

  // ---- interpreter.cpp: the model and its statements ----
  Status bind_globals();
  Status bind_parameters(const Stmt& forward);
  Result<Flow> block(const std::vector<const Stmt*>& body);
  Result<Flow> statement(const Stmt& s);
  Status assign(const Expr& target, Value value);
  Status unpack(const Expr& pattern, const std::vector<const Expr*>& targets, const Value& value);
  Status augmented(const Stmt& s);
  Result<Value> import(const Stmt& s);

  // ---- expressions.cpp ----
  // `hint`: a name for the node that the expression may become.
  Result<Value> eval(const Expr& e, const std::string& hint = {});
  Result<Value> name(const Expr& e);
  Result<Value> attribute(const Expr& e, const std::string& hint);
  Result<Value> tensor_attribute(const Expr& e, NodeId node, const std::string& hint);
  Result<Value> subscript(const Expr& e, const std::string& hint);
  Result<Value> subscript_of(const Expr& e, const Value& object, const Value& index, const std::string& hint);
  Result<Value> unary(const Expr& e, const std::string& hint);
  Result<Value> binary(const Expr& at, std::string_view op, const Value& a, const Value& b,
                       const std::string& hint);
  Result<Value> compare(const Expr& e, const std::string& hint);
  Result<Value> sequence(const Expr& e);
  Result<bool> condition(const Expr& e);
  Result<std::vector<Value>> elements(const Expr& e, const Value& value);
  Result<Value> folded(const Expr& e, Folded folded);

  // ---- calls.cpp ----
  Result<Value> call(const Expr& e, const std::string& hint);
  Result<Arguments> arguments(const Expr& e);
  Result<Value> method_call(const Expr& e, const Value& object, std::string_view method, Arguments arguments,
                            const std::string& hint);
  // Methods whose result is known from the metadata (size, dim, numel, ...): a value, or nothing for other methods.
  Result<std::optional<Value>> metadata_method(const Expr& e, NodeId node, std::string_view method,
                                               const Arguments& arguments);
  Result<Value> global_call(const Expr& e, const std::string& target, Arguments arguments,
                            const std::string& hint);
  // Functions computed here (slice, int, torch.device, torch.Size, math.sqrt): a value, or nothing for others.
  Result<std::optional<Value>> computed_call(const Expr& e, std::string_view target,
                                             const Arguments& arguments);
  // The positional arguments of the call that an inlined function makes.
  Result<Arguments> inlined_arguments(const Expr& e, const InlinedFunction& function, Arguments arguments);
  Value move_devices(const Value& v, bool direct) const;

  // ---- emit.cpp: nodes ----
  // Adds a node, derives its metadata; tuple results become tuples of getitems, as in dynamo.
  Result<Value> emit(const Expr& at, NodeOp op, std::string target, Arguments arguments,
                     const std::string& hint);
  Value expand(const Expr& at, NodeId node);
  Value tuple_item(const Expr& at, NodeId producer, int64_t index, const std::string& hint);
  void infer_node(NodeId node, const Span& span);
  void settle_device(Node& node) const;
  bool sum_of_sizes(Node& node);
  // The metadata of a tensor node, or a diagnostic that says what needs it.
  Result<const TensorMeta*> known_tensor(const Expr& at, NodeId node, std::string_view what);
  bool is_lazy_tuple(NodeId node) const;

  // ---- finish.cpp ----
  Result<Captured> finish();
  void drop_grad_mode_pairs(std::vector<bool>& kept) const;
  void collect_outputs(const Value& v, std::vector<NodeId>& out) const;

  Diagnostic error(std::string_view code, const std::string& message, const Span& span) const;
  Diagnostic unsupported(std::string_view construct, const Span& span) const;
  Diagnostic graph_break(std::string_view construct, const Span& span) const;

  const pysrc::Module& module_;
  const std::vector<InputMeta>* inputs_;
  const CaptureOptions& options_;
  Graph draft_;
  std::vector<Diagnostic> findings_;
  std::unordered_map<std::string, Value> globals_;
  std::unordered_map<std::string, Value> locals_;
  std::string self_;
  Value result_;
  bool result_is_bare_ = false;  // `return x`, not `return (x,)`
  // Items of tuples whose metadata is unknown, made when first read: (producer, index) to the node.
  std::map<std::pair<NodeId, int64_t>, NodeId> lazy_items_;
  // Values read from an input's attributes; dynamo loads them from the input again instead of returning them.
  std::vector<bool> from_input_;
  std::unordered_map<NodeId, Value> items_;  // 0-dim inputs whose value is known
  int64_t steps_ = 0;
};

}  // namespace passnet
