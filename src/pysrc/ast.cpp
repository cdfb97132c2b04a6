#include "pysrc/ast.h"

#include <algorithm>

namespace passnet::pysrc {

const Stmt* Module::find(const std::vector<const Stmt*>& body, StmtKind kind, std::string_view name) {
  const auto it = std::find_if(body.rbegin(), body.rend(),
                               [&](const Stmt* s) { return s->kind == kind && s->text == name; });
  return it == body.rend() ? nullptr : *it;
}

std::string dotted_name(const Expr& expr) {
  std::vector<const std::string*> parts;
  const Expr* at = &expr;
  while (at->kind == ExprKind::kAttribute) {
    parts.push_back(&at->text);
    at = at->value;
  }
  if (at->kind != ExprKind::kName) return {};
  std::string out = at->text;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) (out += '.') += **it;
  return out;
}

std::string_view describe(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName: return "name";
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kImaginary: return "number";
    case ExprKind::kString: return "string";
    case ExprKind::kTrue:
    case ExprKind::kFalse: return "boolean";
    case ExprKind::kNone: return "None";
    case ExprKind::kEllipsis: return "Ellipsis";
    case ExprKind::kAttribute: return "attribute";
    case ExprKind::kCall: return "call";
    case ExprKind::kSubscript: return "subscript";
    case ExprKind::kSlice: return "slice";
    case ExprKind::kTuple: return "tuple";
    case ExprKind::kList: return "list";
    case ExprKind::kDict: return "dict";
    case ExprKind::kSet: return "set";
    case ExprKind::kUnary:
    case ExprKind::kBinary:
    case ExprKind::kBoolOp: return "operation";
    case ExprKind::kCompare: return "comparison";
    case ExprKind::kConditional: return "conditional expression";
    case ExprKind::kStarred: return "starred expression";
    case ExprKind::kUnsupported: return expr.text;
  }
  return "expression";
}

std::string_view describe(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kImport:
    case StmtKind::kImportFrom: return "import";
    case StmtKind::kClass: return "class";
    case StmtKind::kFunction: return "function";
    case StmtKind::kAssign: return "assignment";
    case StmtKind::kAugAssign: return "augmented assignment";
    case StmtKind::kAnnotation: return "annotation";
    case StmtKind::kExpr: return "expression statement";
    case StmtKind::kReturn: return "return statement";
    case StmtKind::kPass: return "pass statement";
    case StmtKind::kDelete: return "del statement";
    case StmtKind::kIf: return "if statement";
    case StmtKind::kFor: return "for loop";
    case StmtKind::kUnsupported: return stmt.text;
  }
  return "statement";
}

}  // namespace passnet::pysrc
