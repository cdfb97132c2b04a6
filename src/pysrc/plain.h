#pragma once

#include <memory>
#include <optional>

#include "pysrc/ast.h"

namespace passnet::pysrc {

// A module as printers of graphs write it, read without a syntax tree, which takes half the time of a capture: imports, classes,
// functions, assignments, calls, subscripts and operators, in printable ASCII and indented by spaces. Nothing for every other
// text, right or wrong (comments, escapes, keywords of other statements, anything nested deeply): the syntax tree reads that, or
// says what is wrong with it. What is read here is, span by span, what to_module makes of the tree: a test holds the two against
// each other, and so does the fuzzer.
std::optional<Module> read_plain_module(const std::shared_ptr<const SourceBuffer>& source);

}  // namespace passnet::pysrc
