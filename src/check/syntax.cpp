#include "check/syntax.h"

#include <algorithm>
#include <array>

namespace passnet::check {

namespace {

// Nodes of the concrete syntax that Python's abstract syntax does not have. Their children count as their
// parent's.
bool transparent(std::string_view type) {
  static constexpr std::array<std::string_view, 14> kTypes = {"block",
                                                              "parenthesized_expression",
                                                              "argument_list",
                                                              "type",
                                                              "default_parameter",
                                                              "else_clause",
                                                              "finally_clause",
                                                              "with_clause",
                                                              "pair",
                                                              "dictionary_splat",
                                                              "concatenated_string",
                                                              "as_pattern_target",
                                                              "type_parameter",
                                                              "typed_default_parameter"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

}  // namespace

std::string_view SyntaxNode::text() const {
  if (null()) return {};
  const uint32_t begin = ts_node_start_byte(node_), end = ts_node_end_byte(node_);
  return source_->text().substr(begin, end - begin);
}

Span SyntaxNode::span() const {
  if (null()) return {};
  const TSPoint a = ts_node_start_point(node_), b = ts_node_end_point(node_);
  return {static_cast<int>(a.row) + 1, static_cast<int>(a.column) + 1, static_cast<int>(b.row) + 1,
          static_cast<int>(b.column) + 1};
}

SyntaxNode SyntaxNode::field(std::string_view name) const {
  if (null()) return {};
  const TSNode child = ts_node_child_by_field_name(node_, name.data(), static_cast<uint32_t>(name.size()));
  return ts_node_is_null(child) ? SyntaxNode() : SyntaxNode(child, source_);
}

std::vector<SyntaxNode> SyntaxNode::children() const {
  std::vector<SyntaxNode> out;
  if (null()) return out;
  TSTreeCursor cursor = ts_tree_cursor_new(node_);
  if (ts_tree_cursor_goto_first_child(&cursor)) {
    do {
      const TSNode child = ts_tree_cursor_current_node(&cursor);
      if (!ts_node_is_named(child) || ts_node_is_extra(child)) continue;
      out.emplace_back(child, source_);
    } while (ts_tree_cursor_goto_next_sibling(&cursor));
  }
  ts_tree_cursor_delete(&cursor);
  return out;
}

std::vector<SyntaxNode> SyntaxNode::children_of_field(std::string_view name) const {
  std::vector<SyntaxNode> out;
  if (null()) return out;
  TSTreeCursor cursor = ts_tree_cursor_new(node_);
  if (ts_tree_cursor_goto_first_child(&cursor)) {
    do {
      const char* field = ts_tree_cursor_current_field_name(&cursor);
      const TSNode child = ts_tree_cursor_current_node(&cursor);
      if (field != nullptr && name == field && ts_node_is_named(child)) out.emplace_back(child, source_);
    } while (ts_tree_cursor_goto_next_sibling(&cursor));
  }
  ts_tree_cursor_delete(&cursor);
  return out;
}

bool SyntaxNode::has_token(std::string_view token) const {
  if (null()) return false;
  for (uint32_t i = 0; i < ts_node_child_count(node_); ++i) {
    const TSNode child = ts_node_child(node_, i);
    if (!ts_node_is_named(child) && token == ts_node_type(child)) return true;
  }
  return false;
}

SyntaxNode SyntaxNode::bare() const {
  SyntaxNode node = *this;
  while (node.is("parenthesized_expression")) {
    const std::vector<SyntaxNode> inner = node.children();
    if (inner.size() != 1) break;
    node = inner[0];
  }
  return node;
}

std::vector<SyntaxNode> SyntaxNode::ast_children() const {
  std::vector<SyntaxNode> out;
  if (is("decorated_definition")) {  // one node with its definition, decorators last
    out = field("definition").ast_children();
    for (const SyntaxNode& part : children()) {
      if (!part.is("decorator")) continue;
      for (const SyntaxNode& child : part.children()) out.push_back(child.bare());
    }
    return out;
  }
  std::vector<SyntaxNode> stack;
  const auto push = [&](const SyntaxNode& node) {
    const std::vector<SyntaxNode> below = node.children();
    stack.insert(stack.end(), below.rbegin(), below.rend());
  };
  push(*this);
  while (!stack.empty()) {
    const SyntaxNode node = stack.back();
    stack.pop_back();
    if (transparent(node.type())) {
      push(node);
    } else {
      out.push_back(node);
    }
  }
  return out;
}

std::string chain_text(SyntaxNode expression) {
  std::string out;
  for (expression = expression.bare(); expression.is("attribute");
       expression = expression.field("object").bare()) {
    out = "." + std::string(expression.field("attribute").text()) + out;
  }
  if (!expression.is("identifier")) return {};
  return std::string(expression.text()) + out;
}

}  // namespace passnet::check
