#pragma once

#include "base/verdict.h"
#include "plan/facts.h"
#include "plan/region.h"

namespace passnet {

/// Whether the numbers of a region can be trusted to agree with eager's at t = -5 on every element, whatever the data.
/// What sums in another order than the library differs from it in the last place now and then; where that is rounded
/// to 16 bits and rounded again, an element can leave the tolerance. Rules, and where they come from (one H200, torch
/// 2.11, live inputs):
///  * What gives the library's own bits (ops/library.h: most 1x1 and depthwise convolutions, 16-bit linear layers) is
///    as eager's, whatever follows.
///  * product.tf32: a float32 convolution of which it is not known whether the library rounds its operands to tf32.
///  * product.order: float32 products sum in another order: 2^-24 * K * rms(x) * rms(w) must stay below 5e-6, with
///    rms as the sample draws its inputs and 0.5 for what is computed (K up to 335; K = 4096 was outside on 81% of the
///    elements); where more follows than moves, 2^-24 * sqrt(K) as well. 16-bit convolutions of more than
///    384 terms were outside by their order alone.
///  * product.attention: attention of a size at which the library's rounding is not known.
///  * product.rounding: a 16-bit product agrees to one unit in the last place, which is inside the tolerance; after one
///    more activation or addition 0.2 to 1% of the elements were outside. Nothing but views and copies may follow,
///    inside or outside.
///  * reduction.rounding: the same for float16 normalisations and reductions, whose results differ much more rarely:
///    1 to 8 elements in a million were outside after further arithmetic (a linear layer included), so results of up to
///    2^15 elements may be worked on. bfloat16 has a tolerance of two units and float32 no second rounding.
///  * norm.layout: float32 batch_norm of a tensor that is not contiguous: 30 elements in a million were outside.
///  * reduction.tf32: a float32 normalisation, reduction or product of another order, anywhere before a convolution in
///    tf32, where a difference in the last place becomes one in the eleventh bit: 10% of the elements were outside.
Verdict judge_numerics(const GraphFacts& facts, const Region& region);

}  // namespace passnet
