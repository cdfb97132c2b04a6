#pragma once

#include "base/verdict.h"
#include "plan/facts.h"
#include "plan/region.h"

namespace passnet {

/// Whether the numbers of a region that computes a product itself can be trusted to agree with the library's at
/// t = -5, whatever the data. What is refused here stays in the library. Rules, and where they come from (one H200,
/// torch 2.11, live inputs):
///  * float32 convolutions use tf32 in the library, which a kernel in exact float32 misses on most elements
///    (36.7 of 154 million and more were outside); depthwise ones do not.
///  * float32 products sum in another order: 2^-24 * K * rms(x) * rms(w) with inputs of deviation 0.5 must stay
///    below 5e-6 (K up to 335; K = 4096 was outside on 81% of the elements).
///  * attention keeps its weights in a precision of the library's choice.
///  * 16-bit products agree to one unit in the last place, which is inside the tolerance, but any further rounding
///    on top of a differing element can leave it (0.2 to 1% of elements after one activation or addition): nothing
///    but views and copies may follow, inside or outside.
/// Codes: product.tf32, product.order, product.attention, product.rounding.
Verdict judge_products(const GraphFacts& facts, const Region& region);

}  // namespace passnet
