// `(g.placeholder(n) for n in names)`: the typed view of Python leaves comprehensions out, so that their
// three parts are taken from the syntax tree and parsed by themselves. One `for`, no conditions: what
// builders of patterns use.

#include <memory>

#include "check/evaluator.h"
#include "check/syntax.h"
#include "pysrc/parse.h"

namespace passnet::check {

Result<Object> Evaluator::comprehension(const Expr& e, Scope& scope) {
  const std::string text(module_.source().slice(e.span));
  PN_TRY(const pysrc::SyntaxTree tree,
         pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>(module_.file(), text)));
  SyntaxNode node(ts_tree_root_node(tree.get()), &tree.source());
  while (!node.null() && !node.is("generator_expression") && !node.is("list_comprehension")) {
    const std::vector<SyntaxNode> below = node.children();
    node = below.size() == 1 ? below[0] : SyntaxNode();
  }
  if (node.null()) return refuse(e, "a comprehension of unknown form");
  const bool is_list = node.is("list_comprehension");
  SyntaxNode clause;
  for (const SyntaxNode& child : node.children()) {
    if (child == node.field("body")) continue;
    if (!child.is("for_in_clause") || !clause.null())
      return refuse(e, "a comprehension with more than one `for`");
    clause = child;
  }
  const auto parse = [&](const SyntaxNode& part) -> Result<const Expr*> {
    PN_TRY(pysrc::Module fragment,
           pysrc::parse_module(SourceBuffer(module_.file(), std::string(part.text()))));
    fragments_.push_back(std::move(fragment));
    const std::vector<const Stmt*>& body = fragments_.back().body();
    if (body.size() != 1 || body[0]->kind != pysrc::StmtKind::kExpr)
      return refuse(e, "a comprehension of unknown form");
    return body[0]->value;
  };
  PN_TRY(const Expr* element, parse(node.field("body")));
  PN_TRY(const Expr* target, parse(clause.field("left")));
  PN_TRY(const Expr* iterable, parse(clause.field("right")));
  PN_TRY(const Object sequence, eval(*iterable, scope));
  PN_TRY(const std::vector<Object> items, items_of(e, sequence));
  std::vector<Object> out;
  Scope inner = scope;
  for (const Object& item : items) {
    PN_CHECK_OK(assign(*target, item, inner));
    PN_TRY(Object value, eval(*element, inner));
    out.push_back(std::move(value));
  }
  return Object::sequence(std::move(out), is_list);
}

}  // namespace passnet::check
