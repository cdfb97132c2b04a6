#pragma once

#include <string>
#include <vector>

#include "check/wrapper.h"
#include "match/rewrite.h"

// What a wrapper does, against what the operations did that its call replaces: shape, element type and layout of the
// result, memory shared with arguments, and writes.

namespace passnet::check {

// The wrapper's arguments at one match, in terms of `graph`, which the match was found in.
std::vector<WrapperArgument> arguments_at(const Graph& graph, const RewriteRule& rule,
                                          const std::vector<std::string>& parameters,
                                          const std::vector<Value>& bindings);

// Whether the wrapper hands back an argument that shares memory with the value it stands for.
bool returns_argument_as_eager(const WrapperRun& run, const std::vector<WrapperArgument>& arguments,
                               const Meta& expected);

struct WrapperJudgement {
  std::vector<Diagnostic> findings;
  bool writes_settled = false;  // region.must_write and region.alias_broken need no warning of their own
};

// `rewritten` holds the call at `replaced.wrapper`; `returned` is the name of the value that it stands for.
WrapperJudgement judge_wrapper(const std::string& pass, const std::string& returned, const Graph& rewritten,
                               const Replaced& replaced, const std::vector<WrapperArgument>& arguments,
                               const WrapperRun& run);

}  // namespace passnet::check
