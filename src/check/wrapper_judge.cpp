#include "check/wrapper_judge.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check/rules.h"
#include "ops/view_algebra.h"

namespace passnet::check {

namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  return fmt::format("({}{})", fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
}

class Judge {
 public:
  Judge(const std::string& pass, const std::string& returned, const Graph& rewritten,
        const Replaced& replaced, const std::vector<WrapperArgument>& arguments, const WrapperRun& run)
      : pass_(pass),
        returned_(returned),
        graph_(rewritten),
        replaced_(replaced),
        arguments_(arguments),
        run_(run),
        call_(rewritten.node(replaced.wrapper)) {}

  WrapperJudgement take() {
    for (const Diagnostic& d : run_.findings) out_.findings.push_back(d);
    if (run_.followed) {
      check_outputs();
      check_sharing();
      check_writes();
    }
    return std::move(out_);
  }

 private:
  void add(std::string_view code, const std::string& message, const std::string& hint = {}) {
    Diagnostic d = broken(code, message).at(pass_ + ".py");
    if (!hint.empty()) d.hint = hint;
    out_.findings.push_back(std::move(d));
  }

  void check_outputs() {
    const Meta& meta = call_.meta;
    if (!run_.outputs_known) return;
    const bool several = meta.kind == Meta::Kind::kTuple;
    if (meta.kind != Meta::Kind::kTensor && !several) return;
    const size_t expected = several ? meta.items.size() : 1;
    if (run_.outputs.size() != expected) {
      add("wrapper.output_shape", fmt::format("{}: the wrapper returns {} tensors for {}, eager gives {}",
                                              pass_, run_.outputs.size(), returned_, expected));
      return;
    }
    for (size_t i = 0; i < expected; ++i) {
      const Meta& want = several ? meta.items[i] : meta;
      if (want.is_tensor())
        check_output(run_.outputs[i], want.tensor, several ? fmt::format("{}[{}]", returned_, i) : returned_);
    }
  }

  void check_output(const WrapperTensor& got, const TensorMeta& want, const std::string& what) {
    if (got.dtype && *got.dtype != want.dtype) {
      add("wrapper.output_dtype",
          fmt::format("{}: the wrapper returns {} for {}, eager gives {}", pass_, name_of(*got.dtype), what,
                      name_of(want.dtype)),
          fmt::format("allocate the result with dtype=torch.{}", name_of(want.dtype)));
    }
    if (!got.shape) return;
    if (*got.shape != want.shape) {
      add("wrapper.output_shape",
          fmt::format("{}: the wrapper returns shape {} for {}, eager gives {}", pass_,
                      sizes_text(*got.shape), what, sizes_text(want.shape)),
          fmt::format("allocate the result with the shape that eager gives, here {}",
                      sizes_text(want.shape)));
      return;
    }
    if (!got.stride || !want.stride || same_strides(want.shape, *got.stride, *want.stride)) return;
    // Other strides are seen by a view alone: every other operation reads through them.
    for (size_t id = static_cast<size_t>(call_.id) + 1; id < graph_.size(); ++id) {
      const Node& user = graph_.node(static_cast<NodeId>(id));
      if (user.op != NodeOp::kCallMethod || user.target != "view" || user.args.empty() ||
          !user.args[0].is_node() || user.args[0].as_node() != call_.id || !user.meta.is_tensor())
        continue;
      if (reshape_strides(want.shape, *got.stride, user.meta.tensor.shape)) continue;
      add("wrapper.output_layout",
          fmt::format("{}: the wrapper returns strides {} for {}; {} views it as {}, which needs strides {}",
                      pass_, sizes_text(*got.stride), what, user.name, sizes_text(user.meta.tensor.shape),
                      sizes_text(*want.stride)),
          fmt::format("return a tensor with eager's strides: torch.empty({}, ...) where they are contiguous",
                      sizes_text(want.shape)));
    }
  }

  bool later_reads(StorageId storage) const {
    for (size_t id = static_cast<size_t>(call_.id) + 1; id < graph_.size(); ++id) {
      const Node& node = graph_.node(static_cast<NodeId>(id));
      StorageSet set;
      set.add(storage);
      if (node.op == NodeOp::kOutput) {
        for (const NodeId input : graph_.inputs_of(node.id)) {
          StorageSet out;
          out.add(graph_.node(input).meta);
          if (out.may_alias(set)) return true;
        }
      } else if (reads_of(graph_, node).may_alias(set)) {
        return true;
      }
    }
    return false;
  }

  bool later_writes(StorageId storage) const {
    StorageSet set;
    set.add(storage);
    for (size_t id = static_cast<size_t>(call_.id) + 1; id < graph_.size(); ++id) {
      if (writes_of(graph_, graph_.node(static_cast<NodeId>(id))).may_alias(set)) return true;
    }
    return false;
  }

  bool is_input(StorageId storage) const {
    for (const NodeId id : graph_.placeholders()) {
      const Meta& meta = graph_.node(id).meta;
      if (meta.is_tensor() && meta.tensor.storage == storage) return true;
    }
    return false;
  }

  bool is_output(StorageId storage, bool apart_from_call) const {
    if (graph_.output() == nullptr) return false;
    for (const NodeId id : graph_.inputs_of(graph_.output()->id)) {
      const Meta& meta = graph_.node(id).meta;
      if (meta.is_tensor() && meta.tensor.storage == storage && !(apart_from_call && id == call_.id))
        return true;
    }
    return false;
  }

  // An argument handed back where eager makes a tensor of its own.
  void check_sharing() {
    if (!call_.meta.is_tensor() || run_.outputs.size() != 1 || run_.outputs[0].argument < 0) return;
    const size_t at = static_cast<size_t>(run_.outputs[0].argument);
    const TensorMeta& given = arguments_[at].tensor;
    const StorageId mine = call_.meta.tensor.storage;
    if (given.storage == mine || given.storage == kNoStorage || mine == kNoStorage) return;
    const bool seen =
        (is_output(mine, false) && (is_input(given.storage) || is_output(given.storage, false)));
    const bool written = later_writes(mine) || (later_writes(given.storage) && later_reads(mine));
    if (!seen && !written) return;
    add("region.alias_added",
        fmt::format("{}: the wrapper returns its argument {} for {}; eager makes a new tensor, and {}", pass_,
                    arguments_[at].name, returned_,
                    written ? "one of the two is written later" : "both are visible outside"));
  }

  void check_writes() {
    const std::vector<StorageId>& must = replaced_.legality.must_write;
    const auto writes = [&](const std::set<size_t>& which, StorageId storage) {
      return std::any_of(which.begin(), which.end(), [&](size_t i) {
        return arguments_[i].kind == WrapperArgument::Kind::kTensor &&
               arguments_[i].tensor.storage == storage;
      });
    };
    bool settled = true;
    for (const StorageId storage : must) {
      if (writes(run_.written, storage)) continue;
      if (!run_.effects_known || writes(run_.maybe_written, storage)) {
        settled = false;
        continue;
      }
      std::string name;
      for (const WrapperArgument& a : arguments_) {
        if (a.kind == WrapperArgument::Kind::kTensor && a.tensor.storage == storage) name = a.name;
      }
      add("region.must_write", fmt::format("{}: the pattern writes memory that is visible outside, {}", pass_,
                                           name.empty() ? "and the wrapper gets no argument that holds it"
                                                        : fmt::format("and no kernel stores into {}", name)));
    }
    out_.writes_settled = settled;
    for (const size_t i : run_.written) {
      const WrapperArgument& a = arguments_[i];
      if (a.kind != WrapperArgument::Kind::kTensor ||
          std::find(must.begin(), must.end(), a.tensor.storage) != must.end())
        continue;
      if (!is_input(a.tensor.storage) && !later_reads(a.tensor.storage)) continue;
      add("region.write_added",
          fmt::format("{}: a kernel stores into the argument {}, which eager leaves as it is", pass_,
                      a.name));
    }
    // What the result shares with a value outside, and a copy would not.
    const bool fresh = run_.outputs_known && run_.outputs.size() == 1 && run_.outputs[0].argument < 0;
    for (const Refusal& refusal : replaced_.legality.verdict.refusals()) {
      if (refusal.code != "region.alias_broken" || !fresh) continue;
      add("region.alias_broken", fmt::format("{}: {}", pass_, refusal.message));
    }
  }

  const std::string& pass_;
  const std::string& returned_;
  const Graph& graph_;
  const Replaced& replaced_;
  const std::vector<WrapperArgument>& arguments_;
  const WrapperRun& run_;
  const Node& call_;
  WrapperJudgement out_;
};

}  // namespace

std::vector<WrapperArgument> arguments_at(const Graph& graph, const RewriteRule& rule,
                                          const std::vector<std::string>& parameters,
                                          const std::vector<Value>& bindings) {
  std::vector<WrapperArgument> out;
  for (const Value& v : rule.arguments) {
    WrapperArgument& argument = out.emplace_back();
    Value bound = v;
    if (v.is_node()) {
      const size_t number = static_cast<size_t>(v.as_node());
      argument.name = number < parameters.size() ? parameters[number] : "an argument";
      if (number >= bindings.size()) continue;
      bound = bindings[number];
    } else {
      argument.name = python_text(v);
    }
    bool holds = false;
    bound.for_each_node([&](NodeId) { holds = true; });
    if (!holds) {
      argument.kind = WrapperArgument::Kind::kLiteral;
      argument.literal = bound;
    } else if (bound.is_node()) {
      const Meta& meta = graph.node(bound.as_node()).meta;
      if (meta.is_tensor()) {
        argument.kind = WrapperArgument::Kind::kTensor;
        argument.tensor = meta.tensor;
      } else if (meta.kind == Meta::Kind::kScalar) {
        argument.kind = WrapperArgument::Kind::kLiteral;
        argument.literal = meta.scalar;
      }
    }
  }
  return out;
}

bool returns_argument_as_eager(const WrapperRun& run, const std::vector<WrapperArgument>& arguments,
                               const Meta& expected) {
  if (!run.followed || !run.outputs_known || run.outputs.size() != 1 || !expected.is_tensor()) return false;
  const int at = run.outputs[0].argument;
  return at >= 0 && arguments[static_cast<size_t>(at)].tensor.storage == expected.tensor.storage;
}

WrapperJudgement judge_wrapper(const std::string& pass, const std::string& returned, const Graph& rewritten,
                               const Replaced& replaced, const std::vector<WrapperArgument>& arguments,
                               const WrapperRun& run) {
  return Judge(pass, returned, rewritten, replaced, arguments, run).take();
}

}  // namespace passnet::check
