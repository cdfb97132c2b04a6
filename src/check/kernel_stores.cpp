#include <algorithm>

#include "check/wrapper.h"

namespace passnet::check {

namespace {

using pysrc::Expr;
using pysrc::ExprKind;
using pysrc::Stmt;
using pysrc::StmtKind;

using Names = std::set<std::string>;

class Stores {
 public:
  explicit Stores(const Stmt& kernel) {
    for (const pysrc::Parameter& p : kernel.parameters) reach_[p.name] = {p.name};
    // Twice: a pointer that a loop moves on depends on itself.
    for (int round = 0; round < 2; ++round) block(kernel.body);
  }

  KernelStores take() { return std::move(out_); }

 private:
  // The parameters whose memory an expression may point into. A loaded value points nowhere.
  Names reach(const Expr* e) {
    Names out;
    if (e == nullptr) return out;
    if (e->kind == ExprKind::kName) {
      const auto at = reach_.find(e->text);
      return at == reach_.end() ? out : at->second;
    }
    if (e->kind == ExprKind::kCall) call(*e);
    const bool loads = e->kind == ExprKind::kCall && last_of(*e->value) == "load";
    const auto join = [&](const Expr* part) {
      Names more = reach(part);
      if (!loads) out.merge(more);
    };
    join(e->value);
    for (const Expr* item : e->items) join(item);
    for (const pysrc::Keyword& k : e->keywords) join(k.value);
    // `x.dtype.element_ty` and the like are no pointers, nor is what a comparison gives.
    if (e->kind == ExprKind::kAttribute || e->kind == ExprKind::kCompare) out.clear();
    return out;
  }

  static std::string last_of(const Expr& callee) {
    const std::string name = pysrc::dotted_name(callee);
    return name.substr(name.rfind('.') + 1);
  }

  void call(const Expr& e) {
    const std::string name = pysrc::dotted_name(*e.value);
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool of_triton = name.find('.') != std::string::npos;
    if (last == "store" || last.starts_with("atomic_")) {
      const Expr* pointer = e.items.empty() ? nullptr : e.items[0];
      for (const pysrc::Keyword& k : e.keywords) {
        if (k.name == "pointer") pointer = k.value;
      }
      out_.stored.merge(reach(pointer));
    } else if (!of_triton && name != "min" && name != "max" && name != "range" && name != "int" &&
               name != "float" && name != "len") {
      for (const Expr* item : e.items) out_.handed_on.merge(reach(item));
      for (const pysrc::Keyword& k : e.keywords) out_.handed_on.merge(reach(k.value));
    }
  }

  void bind(const Expr& target, const Names& names) {
    if (target.kind == ExprKind::kName) {
      Names copy = names;
      reach_[target.text].merge(copy);
    }
    for (const Expr* item : target.items) bind(*item, names);
  }

  void block(const std::vector<const Stmt*>& body) {
    for (const Stmt* s : body) {
      switch (s->kind) {
        case StmtKind::kAssign: {
          const Names names = reach(s->value);
          for (const Expr* target : s->exprs) bind(*target, names);
          break;
        }
        case StmtKind::kAugAssign: bind(*s->exprs[0], reach(s->value)); break;
        case StmtKind::kAnnotation:
        case StmtKind::kPass: break;
        case StmtKind::kExpr:
        case StmtKind::kReturn: reach(s->value); break;
        case StmtKind::kIf:
          reach(s->value);
          block(s->body);
          block(s->orelse);
          break;
        case StmtKind::kFor:
          reach(s->value);
          block(s->body);
          block(s->orelse);
          break;
        default: out_.known = false;
      }
    }
  }

  std::map<std::string, Names> reach_;
  KernelStores out_;
};

}  // namespace

KernelStores kernel_stores(const Stmt& kernel) { return Stores(kernel).take(); }

}  // namespace passnet::check
