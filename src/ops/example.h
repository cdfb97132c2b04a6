#pragma once

#include "base/json.h"
#include "ops/core.h"

namespace passnet {

// The graph of a row's example: a placeholder an input, a node a call (inner ones first), metadata inferred, and an
// output node. A small part of Python: calls of functions and methods, attributes, subscripts, operators, literals,
// tuples and lists.
Result<Graph> example_graph(const OpRow& row, const Example& example);
// The example's Python text; written out where the row leaves it to the first spelling.
std::string example_text(const OpRow& row, const Example& example);
// Names of the inputs in order.
std::vector<std::string> example_inputs(const Example& example);

// The whole table with its examples, for those who compare it with torch:
// {"rows": [{"name", "class", "wall", "spellings": [{"kind", "target", "signature"}], "examples": [{"inputs": [{"name",
// "shape", "dtype", "stride"} | {"name", "literal"}], "call", "value": M, "program" | "refusal"}]}]}. M: {"shape",
// "dtype", "stride", "alias"} (alias: the value shares an input's memory), {"items": [M...]}, {"number": text} or null.
// `wide`: only pointwise examples on 16-bit floats, with 65,536 elements an input: every value of a single operand.
Json table_to_json(bool wide = false);

}  // namespace passnet
