#include "ops/pointwise_rows.h"

namespace passnet {

namespace {

constexpr auto kPromoted = ResultRule::kPromoted;
constexpr auto kBool = ResultRule::kBool;
constexpr auto kPoint = OpClass::kPointwise;

// A number is cast to the element type before it is compared (0.1 equals a float16 made from 0.1).
template <Fn kFn>
E compare(const FormArgs& f) {
  return call(kFn, f.x[0], f.x[1]);
}
template <Fn kFn>
constexpr LowerFn kCompare = lower_form<kPromoted, 2, compare<kFn>, NumberRule::kElement>;

template <Fn kFn>
E logical(const FormArgs& f) {
  return call(kFn, truth(f.x[0]), truth(f.x[1]));
}
E logical_not(const FormArgs& f) { return call(Fn::kNot, truth(f.x[0])); }

template <Fn kFn>
Result<E> bitwise(const FormArgs& f) {
  if (is_floating(f.common)) return bad_argument(f.call, "input", "of an integer type or bool");
  return call(kFn, f.x[0], f.x[1]);
}
Result<E> bitwise_not(const FormArgs& f) {
  if (is_floating(f.common)) return bad_argument(f.call, "input", "of an integer type or bool");
  return call(Fn::kNot, f.x[0]);
}
template <Fn kFn>
Result<E> shift(const FormArgs& f) {
  if (!is_integral(f.common, false)) return bad_argument(f.call, "input", "of an integer type");
  return call(kFn, f.x[0], f.x[1]);
}

Result<Inferred> meta_bitwise(const Call& call) {
  const bool pair = call.args.size() > 1;
  PN_TRY(const DType common, common_type(call, pair ? 2 : 1, kPromoted));
  if (is_floating(common) || is_complex(common))
    return bad_argument(call, "input", "of an integer type or bool");
  return pointwise_meta(call, pair ? 2 : 1, kPromoted);
}

OpRow comparison(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_form<kBool, 2>,
          .lower = lower,
          .examples = {{"x=f16[4,1,8], y=f16[5,1]", ""},
                       {"x=i64[4,1], y=f32[6]", ""},
                       {"x=bf16[4,8], y=0.1", ""},
                       {"x=i64[9], y=3", ""}}};
}

OpRow logic(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_form<kBool, 2>,
          .lower = lower,
          .examples = {{"x=bool[4,1], y=bool[6]", ""}, {"x=f16[4,1], y=i64[6]", ""}}};
}

OpRow bits(std::string_view name, std::vector<Spelling> spellings, LowerFn lower) {
  return {.name = name,
          .cls = kPoint,
          .spellings = std::move(spellings),
          .meta = meta_bitwise,
          .lower = lower,
          .examples = {{"x=bool[4,1], y=bool[6]", ""}, {"x=i64[4,1], y=i32[6]", ""}, {"x=i64[9], y=3", ""}}};
}

}  // namespace

std::vector<OpRow> logic_rows() {
  return {
      comparison("eq",
                 {function("torch.eq", "input, other"), method("eq", "input, other"),
                  function("operator.eq", "input, other"), method("__eq__", "input, other"),
                  in_place(method("eq_", "input, other"))},
                 kCompare<Fn::kEq>),
      comparison("ne",
                 {function("torch.ne", "input, other"), method("ne", "input, other"),
                  function("operator.ne", "input, other"), method("__ne__", "input, other"),
                  function("torch.not_equal", "input, other"), method("not_equal", "input, other"),
                  in_place(method("ne_", "input, other"))},
                 kCompare<Fn::kNe>),
      comparison("lt",
                 {function("torch.lt", "input, other"), method("lt", "input, other"),
                  function("operator.lt", "input, other"), method("__lt__", "input, other"),
                  function("torch.less", "input, other"), method("less", "input, other")},
                 kCompare<Fn::kLt>),
      comparison("le",
                 {function("torch.le", "input, other"), method("le", "input, other"),
                  function("operator.le", "input, other"), method("__le__", "input, other"),
                  function("torch.less_equal", "input, other"), method("less_equal", "input, other")},
                 kCompare<Fn::kLe>),
      comparison("gt",
                 {function("torch.gt", "input, other"), method("gt", "input, other"),
                  function("operator.gt", "input, other"), method("__gt__", "input, other"),
                  function("torch.greater", "input, other"), method("greater", "input, other")},
                 kCompare<Fn::kGt>),
      comparison("ge",
                 {function("torch.ge", "input, other"), method("ge", "input, other"),
                  function("operator.ge", "input, other"), method("__ge__", "input, other"),
                  function("torch.greater_equal", "input, other"), method("greater_equal", "input, other")},
                 kCompare<Fn::kGe>),
      logic("logical_and", {PN_BINARY("logical_and", "")}, lower_form<kPromoted, 2, logical<Fn::kAnd>>),
      logic("logical_or", {PN_BINARY("logical_or", "")}, lower_form<kPromoted, 2, logical<Fn::kOr>>),
      logic("logical_xor", {PN_BINARY("logical_xor", "")}, lower_form<kPromoted, 2, logical<Fn::kXor>>),
      {.name = "logical_not",
       .cls = kPoint,
       .spellings = {function("torch.logical_not", "input"), method("logical_not", "input"),
                     in_place(method("logical_not_", "input"))},
       .meta = meta_form<kBool, 1>,
       .lower = lower_form<kPromoted, 1, logical_not>,
       .examples = {{"x=bool[4,5]", "torch.logical_not(x)"}, {"x=f32[4,5]", "x.logical_not()"}}},
      bits("bitwise_and",
           {PN_BINARY("bitwise_and", ""), function("operator.and_", "input, other"),
            in_place(function("operator.iand", "input, other")), method("__and__", "input, other"),
            method("__rand__", "input, other"), in_place(method("__iand__", "input, other"))},
           lower_form<kPromoted, 2, bitwise<Fn::kAnd>>),
      bits("bitwise_or",
           {PN_BINARY("bitwise_or", ""), function("operator.or_", "input, other"),
            in_place(function("operator.ior", "input, other")), method("__or__", "input, other"),
            method("__ror__", "input, other"), in_place(method("__ior__", "input, other"))},
           lower_form<kPromoted, 2, bitwise<Fn::kOr>>),
      bits("bitwise_xor",
           {PN_BINARY("bitwise_xor", ""), function("operator.xor", "input, other"),
            in_place(function("operator.ixor", "input, other")), method("__xor__", "input, other")},
           lower_form<kPromoted, 2, bitwise<Fn::kXor>>),
      {.name = "bitwise_not",
       .cls = kPoint,
       .spellings = {function("torch.bitwise_not", "input"), function("operator.invert", "input"),
                     method("bitwise_not", "input"), in_place(method("bitwise_not_", "input")),
                     method("__invert__", "input")},
       .meta = meta_bitwise,
       .lower = lower_form<kPromoted, 1, bitwise_not>,
       .examples = {{"x=bool[4,5]", "~x"}, {"x=i64[4,5]", "torch.bitwise_not(x)"}}},
      {.name = "shift_left",
       .cls = kPoint,
       .spellings = {PN_BINARY("bitwise_left_shift", ""), function("operator.lshift", "input, other"),
                     method("__lshift__", "input, other")},
       .meta = meta_bitwise,
       .lower = lower_form<kPromoted, 2, shift<Fn::kShl>>,
       .examples = {{"x=i64[9]", "x << 3"}, {"x=i32[4,1], y=i32[6]", "torch.bitwise_left_shift(x, y)"}}},
      {.name = "shift_right",
       .cls = kPoint,
       .spellings = {PN_BINARY("bitwise_right_shift", ""), function("operator.rshift", "input, other"),
                     method("__rshift__", "input, other")},
       .meta = meta_bitwise,
       .lower = lower_form<kPromoted, 2, shift<Fn::kShr>>,
       .examples = {{"x=i64[9]", "x >> 3"}, {"x=i32[4,1], y=i32[6]", "torch.bitwise_right_shift(x, y)"}}},
  };
}

}  // namespace passnet
