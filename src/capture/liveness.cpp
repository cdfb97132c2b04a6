#include "capture/liveness.h"

#include <algorithm>

namespace passnet {

using pysrc::Expr;
using pysrc::ExprKind;
using pysrc::Stmt;
using pysrc::StmtKind;

Liveness::Liveness(const std::vector<const Stmt*>& body) {
  for (const Stmt* s : body) {
    add_statement(*s, false);
    ++statement_;
  }
}

void Liveness::add(const std::string& name, bool read, const Span& span) {
  accesses_[name].push_back({statement_, read, span});
}

void Liveness::add_expression(const Expr* e) {
  if (e == nullptr) return;
  if (e->kind == ExprKind::kName) add(e->text, true, e->span);
  add_expression(e->value);
  for (const Expr* item : e->items) add_expression(item);
  for (const pysrc::Keyword& keyword : e->keywords) add_expression(keyword.value);
}

void Liveness::add_target(const Expr& e, bool nested) {
  switch (e.kind) {
    case ExprKind::kName:
      if (!nested) add(e.text, false, {});
      break;
    case ExprKind::kTuple:
    case ExprKind::kList:
      for (const Expr* item : e.items) add_target(*item, nested);
      break;
    default: add_expression(&e);
  }
}

void Liveness::add_statement(const Stmt& s, bool nested) {
  switch (s.kind) {
    case StmtKind::kAssign:
      add_expression(s.value);
      for (const Expr* target : s.exprs) add_target(*target, nested);
      break;
    case StmtKind::kAugAssign:
      add_expression(s.exprs.front());
      add_expression(s.value);
      add_target(*s.exprs.front(), nested);
      break;
    case StmtKind::kFor:
      add_expression(s.value);
      add_target(*s.exprs.front(), true);
      break;
    case StmtKind::kImport:
    case StmtKind::kImportFrom:
    case StmtKind::kAnnotation: break;
    default:  // an argument of del counts as read
      add_expression(s.value);
      for (const Expr* e : s.exprs) add_expression(e);
  }
  for (const Stmt* inner : s.body) add_statement(*inner, true);
  for (const Stmt* inner : s.orelse) add_statement(*inner, true);
}

bool Liveness::is_read_after(std::string_view name, std::size_t statement, const Span& at) const {
  const auto it = accesses_.find(std::string(name));
  if (it == accesses_.end()) return false;
  const std::vector<Access>& all = it->second;
  auto next = std::lower_bound(all.begin(), all.end(), statement,
                               [](const Access& a, std::size_t s) { return a.statement < s; });
  for (; next != all.end(); ++next) {
    if (!next->read) return false;
    if (next->statement > statement) return true;
    // Within the statement, what stands behind is evaluated behind.
    if (next->span.line > at.end_line || (next->span.line == at.end_line && next->span.col >= at.end_col))
      return true;
  }
  return false;
}

}  // namespace passnet
