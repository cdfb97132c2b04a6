#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tree_sitter/api.h>

#include "base/source.h"

// Python's syntax as the source rules see it: tree-sitter's nodes, read as the abstract syntax that Python
// itself would make of them, so that parentheses, decorators and argument lists are no level of their own.

namespace passnet::check {

class SyntaxNode {
 public:
  SyntaxNode() = default;
  SyntaxNode(TSNode node, const SourceBuffer* source) : node_(node), source_(source) {}

  bool null() const { return source_ == nullptr || ts_node_is_null(node_); }
  std::string_view type() const { return null() ? std::string_view() : ts_node_type(node_); }
  bool is(std::string_view name) const { return type() == name; }
  std::string_view text() const;
  Span span() const;
  int line() const { return span().line; }

  SyntaxNode field(std::string_view name) const;
  // Named children without comments.
  std::vector<SyntaxNode> children() const;
  std::vector<SyntaxNode> children_of_field(std::string_view name) const;
  // Whether an unnamed token of this text ("async") is among the children.
  bool has_token(std::string_view text) const;
  // Behind any parentheses around an expression.
  SyntaxNode bare() const;
  // The children in Python's abstract syntax.
  std::vector<SyntaxNode> ast_children() const;

  bool operator==(const SyntaxNode& other) const { return ts_node_eq(node_, other.node_); }

 private:
  TSNode node_ = {};
  const SourceBuffer* source_ = nullptr;
};

// The nodes below `root`, breadth first as ast.walk gives them, without those that `enter` refuses and what
// is below.
template <class Enter>
std::vector<SyntaxNode> walk(const SyntaxNode& root, Enter&& enter) {
  std::vector<SyntaxNode> order = {root};
  for (size_t at = 0; at < order.size(); ++at) {
    for (const SyntaxNode& child : order[at].ast_children()) {
      if (enter(child)) order.push_back(child);
    }
  }
  return order;
}

// "torch.nn.relu" of a name or a chain of attributes on a name, "" for anything else. Parentheses do not
// matter.
std::string chain_text(SyntaxNode expression);

}  // namespace passnet::check
