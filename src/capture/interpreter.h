#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "capture/capture.h"
#include "capture/folding.h"
#include "capture/known_values.h"
#include "capture/liveness.h"
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
  void set_local(const std::string& name, Value value);
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

  // ---- special_calls.cpp ----
  NodeId plain_node(const Expr& at, std::string target, std::vector<Value> args, Meta meta);
  Status stop_compiling(const Expr& at, std::string_view construct,
                        std::initializer_list<const Value*> operands);
  // Calls that dynamo treats in a way of their own: a value, or nothing for others.
  Result<std::optional<Value>> special_call(const Expr& e, std::string_view target,
                                            const Arguments& arguments);
  // Tensor.new_tensor, which becomes torch.tensor of the tensor's dtype and device; nothing for other forms.
  Result<std::optional<Value>> new_tensor(const Expr& e, NodeId like, const Arguments& arguments,
                                          const std::string& hint);
  // torch.addcdiv with its `value` as a keyword: a division, a product and a sum.
  Result<Value> addcdiv(const Expr& e, const Arguments& arguments, const std::string& hint);
  // torch.nn.functional.threshold: torch.threshold, or torch.threshold_ in place.
  Result<Value> threshold(const Expr& e, Arguments arguments, const std::string& hint);
  Result<std::optional<Value>> enter_autocast(const Expr& e, const Arguments& arguments);
  Result<std::optional<Value>> exit_autocast(const Expr& e, const Arguments& arguments);
  void inherit_levels(const Node& node);
  bool infer_vmap(NodeId id);

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

  // ---- breaks.cpp: the ends of graphs ----
  // A graph's nodes end before `end`; the next one's begin there.
  struct Segment {
    NodeId end = 0;
    std::vector<NodeId> outputs;
  };
  NodeId object_of(NodeId id) const;
  NodeId segment_start() const;
  bool is_carried(NodeId id) const;
  void push(const Value& v);
  // What is pushed while it lives is off the stack when it goes.
  class StackMark {
   public:
    explicit StackMark(Interpreter& of) : stack_(of.stack_), size_(of.stack_.size()) {}
    ~StackMark() { drop(); }
    StackMark(const StackMark&) = delete;
    StackMark& operator=(const StackMark&) = delete;
    void drop() const { stack_.resize(size_); }

   private:
    std::vector<NodeId>& stack_;
    std::size_t size_;
  };
  Status end_graph(const Expr& at, std::string_view construct, std::initializer_list<const Value*> operands);
  Result<Value> number_of(const Expr& at, std::string_view construct, const Value& tensor);
  std::optional<Value> known_number(NodeId id);
  bool needs_number(NodeId id) const;
  Status give_up(const Expr& at, std::string_view construct);
  Status take_out(const Expr& at, std::string_view construct, NodeId id, const std::string& hint);
  Result<std::optional<Value>> run_between(const Expr& at, NodeId id, const std::string& hint);
  Result<Value> masked(const Expr& at, NodeId id, const std::string& hint);

  // ---- finish.cpp ----
  Result<Captured> finish();
  Graph graph_of(NodeId begin, const Segment& segment, const std::vector<bool>& kept,
                 std::vector<NodeId>& inputs);
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
  struct Local {
    Value value;
    int64_t rank = -1;  // by first assignment, since the last graph break
  };
  std::unordered_map<std::string, Local> locals_;
  int64_t next_rank_ = 0;
  std::string self_;
  Value result_;
  bool result_is_bare_ = false;  // `return x`, not `return (x,)`
  // Items of tuples whose metadata is unknown, made when first read: (producer, index) to the node.
  std::map<std::pair<NodeId, int64_t>, NodeId> lazy_items_;
  // Values read from an input's attributes; dynamo loads them from the input again instead of returning them.
  std::vector<bool> from_input_;
  std::unordered_map<NodeId, Value> items_;  // 0-dim inputs whose value is known
  int64_t steps_ = 0;

  std::vector<Segment> segments_;  // ended graphs
  std::vector<NodeId> stack_;      // values of the expression under way that Python holds already
  bool compiled_ = true;           // false: dynamo gave up, the rest of the model runs as it stands
  std::size_t findings_kept_ = 0;  // when it gave up
  int64_t autocast_depth_ = 0, vmap_depth_ = 0;
  std::map<NodeId, std::map<int64_t, int64_t>> levels_;  // vmap: hidden axes of a value, level to length
  KnownValues known_{draft_};
  NodeId parameters_ = 0;                          // nodes below are parameters of forward
  std::unordered_map<NodeId, std::string> names_;  // of nodes in their graphs, where there are several
  const std::vector<const Stmt*>* body_ = nullptr;
  std::size_t statement_index_ = 0;  // in forward's body, and the first node that is made in it
  NodeId statement_start_ = 0;
  int loops_ = 0;
  std::optional<Liveness> liveness_;
};

}  // namespace passnet
