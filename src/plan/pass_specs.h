#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/assess.h"
#include "plan/layouts.h"
#include "plan/region.h"
#include "plan/structure.h"

namespace passnet {

/// A pass before its matches are known: a pattern and what its call does.
struct PassDraft {
  Pattern pattern;
  Region::Kind kind = Region::Kind::kKernel;
  int returns = -1;  ///< placeholder that is returned (kZeroLaunch)
  int item = -1;
  bool tuple_output = false;
  std::vector<std::string> operators;  ///< row names, graph order
  std::vector<std::string>
      spoken;  ///< those that the name is made of: without views, unless there is nothing else
  std::string description;
};

PassDraft draft_pass(const Instance& instance, const RegionCandidate& candidate,
                     const std::set<LiteralPath>& holes);

/// A list of passes as it really acts: every native match of every pattern, in order, on graphs that the
/// passes before it have rewritten.
struct Realised {
  std::vector<PassSpec> specs;
  std::vector<size_t> kept;  ///< by pass: its draft; drafts that find nothing left to match are left out
  std::vector<std::vector<CallCost>> calls;  ///< by graph: the compiled path's calls in order
  std::vector<size_t> matches;               ///< by graph
  /// A pass that matches where it cannot run: its draft and why. The list is then not usable as it stands.
  struct Problem {
    size_t draft;
    Verdict why;
  };
  std::vector<Problem> problems;
  /// Which original nodes each match of each pass took, for reports: [draft] -> (instance, root).
  std::vector<std::vector<std::pair<size_t, NodeId>>> roots;
};

/// Applies the drafts in the order given. Stops at the first pass with a problem.
Realised realise(const std::vector<Instance>& instances, const std::vector<std::string>& variant_names,
                 const std::vector<const PassDraft*>& drafts, Assessor& assessor);

/// What a placeholder that matched `bound` receives: a tensor with its metadata, a literal, or a tuple of tensors,
/// which is neither.
Binding binding_of(const Graph& graph, const Value& bound);

/// Whether two matches are one situation: the same shapes, strides, dtypes and literals.
bool same_bindings(const std::vector<Binding>& a, const std::vector<Binding>& b);

PassSpec clone(const PassSpec& spec);
std::vector<PassSpec> clone(const std::vector<PassSpec>& specs);

/// Nodes that a pass's pattern replaces.
size_t replaced_nodes(const PassSpec& spec);

/// What the call of a pass at `node` is given, in the order of the pattern's placeholders: as settled, and where the
/// library has a choice of layouts that makes it something else, otherwise too.
std::vector<std::vector<Binding>> bindings_of(const SettledLayouts& layouts, NodeId node);

/// File stem and route of a pass ("FuseAddLayerNorm", "add_layer_norm"); `taken` holds the routes given so
/// far.
std::pair<std::string, std::string> name_pass(const PassDraft& draft, std::vector<std::string>& taken);

}  // namespace passnet
