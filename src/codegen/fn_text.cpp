#include "codegen/fn_text.h"

#include <fmt/format.h>

namespace passnet::codegen {

std::string without_parentheses(std::string text) {
  if (text.size() < 2 || text.front() != '(') return text;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return i + 1 == text.size() ? text.substr(1, text.size() - 2) : text;
  }
  return text;
}

namespace {

bool is_infix(Fn fn) {
  switch (fn) {
    case Fn::kAdd:
    case Fn::kSub:
    case Fn::kMul:
    case Fn::kTruncDiv:
    case Fn::kNeg:
    case Fn::kLt:
    case Fn::kLe:
    case Fn::kGt:
    case Fn::kGe:
    case Fn::kEq:
    case Fn::kNe:
    case Fn::kIsNan:
    case Fn::kAnd:
    case Fn::kOr:
    case Fn::kXor:
    case Fn::kNot:
    case Fn::kShl:
    case Fn::kShr: return true;
    default: return false;
  }
}

}  // namespace

Result<FnText> fn_text(Fn fn, DType type, std::vector<std::string> args) {
  if (!is_infix(fn) && (fn != Fn::kDiv || type == DType::kFloat32)) {
    for (std::string& arg : args) arg = without_parentheses(std::move(arg));
  }
  const std::string& a = args[0];
  const std::string b = args.size() > 1 ? args[1] : "";
  const bool real = is_floating(type);
  const bool single = type == DType::kFloat32;
  const auto infix = [&](const char* op) { return FnText{fmt::format("{} {} {}", a, op, b), false, {}}; };
  const auto lib = [&](const char* name) {
    return FnText{b.empty() ? fmt::format("libdevice.{}({})", name, a)
                            : fmt::format("libdevice.{}({}, {})", name, a, b),
                  true,
                  {}};
  };
  const auto helper = [&](const char* name) {
    return FnText{b.empty() ? fmt::format("{}({})", name, a) : fmt::format("{}({}, {})", name, a, b), false,
                  name};
  };
  switch (fn) {
    case Fn::kAdd: return infix("+");
    case Fn::kSub: return infix("-");
    case Fn::kMul: return infix("*");
    case Fn::kDiv:
      // Triton's / on float32 is an approximation within 2 ulp; on float64 it is exact.
      if (single) return FnText{fmt::format("tl.div_rn({}, {})", a, b), false, {}};
      return infix("/");
    case Fn::kFloorDiv: return helper(real ? "_floor_div_float" : "_floor_div_int");
    case Fn::kMod: return helper(real ? "_mod_float" : "_mod_int");
    case Fn::kTruncDiv: return infix("//");
    case Fn::kFma: return FnText{fmt::format("tl.fma({}, {}, {})", a, b, args[2]), false, {}};
    case Fn::kNeg: return FnText{fmt::format("-{}", a), false, {}};
    case Fn::kAbs: return FnText{fmt::format("tl.abs({})", a), false, {}};
    case Fn::kMin:
    case Fn::kMax: {
      const char* name = fn == Fn::kMin ? "tl.minimum" : "tl.maximum";
      if (!real) return FnText{fmt::format("{}({}, {})", name, a, b), false, {}};
      return FnText{fmt::format("{}({}, {}, propagate_nan=tl.PropagateNan.ALL)", name, a, b), false, {}};
    }
    case Fn::kFloor: return FnText{fmt::format("tl.floor({})", a), false, {}};
    case Fn::kCeil: return FnText{fmt::format("tl.ceil({})", a), false, {}};
    case Fn::kTrunc: return lib("trunc");
    case Fn::kRint: return lib("rint");
    case Fn::kSqrt:
      return FnText{single ? fmt::format("tl.sqrt_rn({})", a) : fmt::format("tl.sqrt({})", a), false, {}};
    case Fn::kRsqrt: return lib("rsqrt");
    case Fn::kExp: return lib("exp");
    case Fn::kExp2: return lib("exp2");
    case Fn::kExpm1: return lib("expm1");
    case Fn::kLog: return lib("log");
    case Fn::kLog2: return lib("log2");
    case Fn::kLog10: return lib("log10");
    case Fn::kLog1p: return lib("log1p");
    case Fn::kTanh: return lib("tanh");
    case Fn::kErf: return lib("erf");
    case Fn::kErfc: return lib("erfc");
    case Fn::kSin: return lib("sin");
    case Fn::kCos: return lib("cos");
    case Fn::kTan: return lib("tan");
    case Fn::kAsin: return lib("asin");
    case Fn::kAcos: return lib("acos");
    case Fn::kAtan: return lib("atan");
    case Fn::kAtan2: return lib("atan2");
    case Fn::kSinh: return lib("sinh");
    case Fn::kCosh: return lib("cosh");
    case Fn::kPow:
      if (!real) return user_error("codegen.int_pow", "a power of integers has no kernel");
      return lib("pow");
    case Fn::kSign: return helper("_sign");
    case Fn::kTf32: return helper("_round_tf32");
    case Fn::kCopysign: return lib("copysign");
    case Fn::kLt: return infix("<");
    case Fn::kLe: return infix("<=");
    case Fn::kGt: return infix(">");
    case Fn::kGe: return infix(">=");
    case Fn::kEq: return infix("==");
    case Fn::kNe: return infix("!=");
    case Fn::kIsNan: return FnText{fmt::format("{} != {}", a, a), false, {}};
    case Fn::kIsInf: return FnText{fmt::format("tl.abs({}) == float(\"inf\")", a), false, {}};
    case Fn::kAnd: return infix("&");
    case Fn::kOr: return infix("|");
    case Fn::kXor: return infix("^");
    case Fn::kNot:
      return FnText{type == DType::kBool ? fmt::format("{} == 0", a) : fmt::format("~{}", a), false, {}};
    case Fn::kShl: return infix("<<");
    case Fn::kShr: return infix(">>");
  }
  return internal_error("codegen.fn", "a function without text");
}

}  // namespace passnet::codegen
