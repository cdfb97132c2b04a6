#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "ir/graph.h"
#include "pysrc/ast.h"

// What a replacement function does with the arguments of one match, followed statement by statement with their shapes
// and element types: which operations the run-time guard would refuse, what it allocates and returns, into which
// arguments its kernels store. The first call is followed: caches are empty. What cannot be followed is said, and
// nothing is concluded from it.

namespace passnet::check {

// One argument of the wrapper's call: a tensor, or a literal, or neither (something that is not known).
struct WrapperArgument {
  enum class Kind { kUnknown, kTensor, kLiteral };
  Kind kind = Kind::kUnknown;
  std::string name;  // for messages: of the parameter, or of the literal's place
  TensorMeta tensor;
  Value literal;
};

// What is known of a tensor inside the wrapper.
struct WrapperTensor {
  std::optional<std::vector<int64_t>> shape, stride;
  std::optional<DType> dtype;
  bool poisoned = false;  // under the guard: only allocation and metadata
  int argument = -1;      // shares memory with this argument; -1: with none
  std::string name;
};

struct WrapperRun {
  bool followed = false;  // to the end: `outputs` and `findings` are what happens
  std::string stopped;    // why not
  Span stopped_at;
  std::vector<WrapperTensor> outputs;  // the tensors returned; one, or the items of a tuple
  bool returns_tuple = false;
  bool outputs_known = false;  // everything that is returned is a tensor that was followed
  bool effects_known = true;   // every launch was seen
  std::set<size_t> written;    // arguments that a kernel stores into
  std::set<size_t> maybe_written;
  std::vector<Diagnostic> findings;
};

// Modules of the pass_dir by stem ("_shared_kernels", "FuseA"). They outlive the reader.
using ModuleTable = std::map<std::string, const pysrc::Module*>;

// `function` as ReadPass::function has it: "pass_dir._shared_kernels.dispatch_wrapper", or "FuseA.run".
// `visited`: (file, line, column) of every call that was followed, over all runs.
using VisitedCalls = std::set<std::tuple<std::string, int, int>>;
WrapperRun follow_wrapper(const ModuleTable& modules, const std::string& function,
                          const std::vector<WrapperArgument>& arguments, VisitedCalls& visited);

// Which parameters of a kernel are stored into: those that reach the pointer of a store by name, and those handed to
// another function, of which nothing is known.
struct KernelStores {
  std::set<std::string> stored, handed_on;
  bool known = true;  // false: a statement that is not read
};
KernelStores kernel_stores(const pysrc::Stmt& kernel);

}  // namespace passnet::check
