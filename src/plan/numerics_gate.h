#pragma once

#include "base/verdict.h"
#include "plan/facts.h"
#include "plan/region.h"

namespace passnet {

/// Whether the numbers of a region can be trusted to agree with eager's at t = -5 on every element, whatever the data.
/// What sums in another order than the library differs from it in the last place now and then; where that is rounded
/// to 16 bits and rounded again, an element can leave the tolerance. Rules, and where they come from (one H200, torch
/// 2.11, live inputs):
///  * product.tf32: float32 convolutions use tf32 in the library, which a kernel in exact float32 misses on most
///    elements (574,025 and more a variant); depthwise ones do not.
///  * A 1x1 convolution of a single position (squeeze and excite) is a short product in the library too: of those
///    measured, in all three types and followed by sigmoid, clamp and products, no element was outside. The first and
///    the fourth rule leave them alone, up to 2^13 elements.
///  * product.order: float32 products sum in another order: 2^-24 * K * rms(x) * rms(w) with inputs of deviation 0.5
///    must stay below 5e-6 (K up to 335; K = 4096 was outside on 81% of the elements).
///  * product.attention: attention keeps its weights in a precision of the library's choice.
///  * product.rounding: a 16-bit product agrees to one unit in the last place, which is inside the tolerance; after one
///    more activation or addition 0.2 to 1% of the elements were outside. Nothing but views and copies may follow,
///    inside or outside.
///  * reduction.rounding: the same for float16 normalisations and reductions, whose results differ much more rarely:
///    1 to 8 elements in a million were outside after further arithmetic, so results of up to 2^15 elements may be
///    worked on. bfloat16 has a tolerance of two units and float32 no second rounding.
Verdict judge_numerics(const GraphFacts& facts, const Region& region);

}  // namespace passnet
