#include "pysrc/plain.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "pysrc/literals.h"
#include "pysrc/plain_tokens.h"
#include "pysrc/tree.h"

namespace passnet::pysrc {

namespace {

// Far below kMaxDepth, counted in levels of the syntax tree: whether the tree's limit is reached is for the tree to say. Within it
// kMaxNesting bounds the recursion.
constexpr int kMaxHeight = 200;

// An expression with what the tree knows of it besides: parentheses belong to its place, and its height.
struct Read {
  Expr* expr;
  Place begin, end;
  int height = 1;
};

// How tightly a binary operator binds; 0 for all that is none, or none that is plain (the grammar and Python disagree on ^).
int binding(const Token& token) {
  if (token.kind != Token::Kind::kOperator) return 0;
  switch (token.op) {
    case op("|"): return 1;
    case op("&"): return 2;
    case op("<<"):
    case op(">>"): return 3;
    case op("+"):
    case op("-"): return 4;
    case op("*"):
    case op("/"):
    case op("//"):
    case op("%"):
    case op("@"): return 5;
    default: return 0;
  }
}

bool compares(const Token& token) {
  if (token.kind != Token::Kind::kOperator) return false;
  switch (token.op) {
    case op("<"):
    case op(">"):
    case op("<="):
    case op(">="):
    case op("=="):
    case op("!="): return true;
    default: return false;
  }
}

bool is_augmented(const Token& token) {
  if (token.kind != Token::Kind::kOperator || token.text.size() < 2 || token.text.back() != '=') return false;
  return !compares(token);
}

class Reader : private PlainTokens {
 public:
  explicit Reader(const std::shared_ptr<const SourceBuffer>& source)
      : PlainTokens(source->text()), module_(source) {}

  std::optional<Module> read() {
    std::vector<const Stmt*> body;
    begin_line();
    while (!at_end() && indent() == 0) line(body, 0);
    if (failed() || !at_end()) return std::nullopt;
    module_.set_body(std::move(body));
    return std::move(module_);
  }

 private:
  std::string_view name() {
    if (is_soft_keyword(token().text)) fail();
    return attribute_name();
  }

  // Behind a dot only the true keywords are no names.
  std::string_view attribute_name() {
    if (token().kind != Token::Kind::kName || is_keyword(token().text)) fail();
    const std::string_view text = token().text;
    advance();
    return text;
  }

  // ---- expressions

  Read node(ExprKind kind, Place begin, int height) {
    if (height > kMaxHeight) fail();
    Expr& e = module_.new_expr();
    e.kind = kind;
    return {&e, begin, begin, height};
  }

  // What was just read ends the expression.
  Read ended(Read read) const {
    read.end = last_end();
    read.expr->span = between(read.begin, read.end);
    return read;
  }

  Read expression() {
    Read left = binary(1);
    if (!compares(token())) return left;
    Read out = node(ExprKind::kCompare, left.begin, left.height + 1);
    out.expr->items.push_back(left.expr);
    while (compares(token())) {
      out.expr->ops.emplace_back(token().text);
      advance();
      const Read right = binary(1);
      out.expr->items.push_back(right.expr);
      out.height = std::max(out.height, right.height + 1);
    }
    return ended(out);
  }

  Read binary(int least) {
    Read left = unary();
    for (int bound = binding(token()); bound >= least; bound = binding(token())) {
      Read out = node(ExprKind::kBinary, left.begin, left.height + 1);
      out.expr->ops.emplace_back(token().text);
      advance();
      const Read right = binary(bound + 1);
      out.expr->items.reserve(2);
      out.expr->items.push_back(left.expr);
      out.expr->items.push_back(right.expr);
      out.height = std::max(out.height, right.height + 1);
      left = ended(out);
    }
    return left;
  }

  Read unary() {
    if (!is(op("-")) && !is(op("+")) && !is(op("~"))) return power();
    // A chain of signs is a recursion, like brackets.
    if (++signs_ > kMaxNesting) fail();
    Read out = node(ExprKind::kUnary, token().begin, 1);
    out.expr->ops.emplace_back(token().text);
    advance();
    const Read inner = unary();
    --signs_;
    out.expr->value = inner.expr;
    out.height = inner.height + 1;
    return ended(out);
  }

  Read power() {
    Read base = postfix();
    if (!is(op("**"))) return base;
    if (++signs_ > kMaxNesting) fail();
    Read out = node(ExprKind::kBinary, base.begin, 1);
    out.expr->ops.emplace_back(token().text);
    advance();
    const Read exponent = unary();
    --signs_;
    out.expr->items = {base.expr, exponent.expr};
    out.height = std::max(base.height, exponent.height) + 1;
    return ended(out);
  }

  Read postfix() {
    Read left = atom();
    while (!failed()) {
      if (is(op("."))) {
        Read out = node(ExprKind::kAttribute, left.begin, left.height + 1);
        advance();
        out.expr->value = left.expr;
        out.expr->text = attribute_name();
        left = ended(out);
      } else if (is(op("("))) {
        left = call(left);
      } else if (is(op("["))) {
        left = subscript(left);
      } else {
        break;
      }
    }
    return left;
  }

  Read atom() {
    const Token first = token();
    switch (first.kind) {
      case Token::Kind::kName: {
        const ExprKind kind = first.text == "None"    ? ExprKind::kNone
                              : first.text == "True"  ? ExprKind::kTrue
                              : first.text == "False" ? ExprKind::kFalse
                                                      : ExprKind::kName;
        Read out = node(kind, first.begin, 1);
        if (kind == ExprKind::kName) {
          out.expr->text = name();
        } else {
          advance();
        }
        return ended(out);
      }
      case Token::Kind::kNumber: {
        const std::optional<NumberLiteral> literal = read_number(first.text);
        if (!literal) break;
        advance();
        Read out = node(literal->kind == NumberLiteral::Kind::kInt ? ExprKind::kInt : ExprKind::kFloat,
                        first.begin, 1);
        out.expr->integer = literal->integer;
        out.expr->real = literal->real;
        out.expr->overflow = literal->overflow;
        if (literal->overflow) out.expr->text = first.text;
        return ended(out);
      }
      case Token::Kind::kString: {
        advance();
        if (token().kind == Token::Kind::kString) break;  // joined with the next
        Read out = node(ExprKind::kString, first.begin, 1);
        out.expr->text = first.text.substr(1, first.text.size() - 2);
        return ended(out);
      }
      case Token::Kind::kOperator:
        if (first.op == op("...")) {
          advance();
          return ended(node(ExprKind::kEllipsis, first.begin, 1));
        }
        if (first.op == op("(")) return parentheses();
        if (first.op == op("[")) {
          advance();
          Read out = node(ExprKind::kList, first.begin, 1);
          items(out, op("]"));
          return ended(out);
        }
        break;
      default: break;
    }
    fail();
    return node(ExprKind::kUnsupported, first.begin, 1);
  }

  // Expressions with commas between them, and the bracket that ends them.
  void items(Read& out, uint32_t close) {
    while (!failed() && !is(close)) {
      const Read item = expression();
      out.expr->items.push_back(item.expr);
      out.height = std::max(out.height, item.height + 1);
      if (!is(op(","))) break;
      advance();
    }
    expect(close);
  }

  Read parentheses() {
    const Place begin = token().begin;
    advance();
    if (!is(op(")"))) {
      Read inner = expression();
      if (is(op(")"))) {
        advance();
        inner.begin = begin;
        inner.end = last_end();
        ++inner.height;
        return inner;
      }
      Read out = node(ExprKind::kTuple, begin, inner.height + 1);
      out.expr->items.push_back(inner.expr);
      expect(op(","));
      items(out, op(")"));
      return ended(out);
    }
    Read out = node(ExprKind::kTuple, begin, 1);
    advance();
    return ended(out);
  }

  Read call(const Read& function) {
    Read out = node(ExprKind::kCall, function.begin, function.height + 1);
    out.expr->value = function.expr;
    advance();
    while (!failed() && !is(op(")"))) {
      const Place begin = token().begin;
      std::string_view key;
      if (token().kind == Token::Kind::kName && is_soft_keyword(token().text)) {
        key = attribute_name();  // device(type='cpu')
        if (!is(op("="))) fail();
      } else {
        const Read argument = expression();
        out.height = std::max(out.height, argument.height + 3);
        if (!is(op("="))) {
          out.expr->items.push_back(argument.expr);
        } else if (argument.expr->kind == ExprKind::kName && bare(argument)) {
          key = argument.expr->text;
        } else {
          fail();
        }
      }
      if (is(op("="))) {
        advance();
        const Read value = expression();
        out.height = std::max(out.height, value.height + 3);
        out.expr->keywords.push_back({std::string(key), value.expr, between(begin, value.end)});
      }
      if (!is(op(","))) break;
      advance();
    }
    expect(op(")"));
    return ended(out);
  }

  // Outside of parentheses.
  static bool bare(const Read& read) { return read.expr->span == between(read.begin, read.end); }

  Read subscript(const Read& value) {
    Read out = node(ExprKind::kSubscript, value.begin, value.height + 1);
    out.expr->value = value.expr;
    advance();
    std::vector<const Expr*> indices;
    bool comma = false;
    Place first, last;
    while (!failed() && !is(op("]"))) {
      const Read item = index();
      if (indices.empty()) first = item.begin;
      last = item.end;
      indices.push_back(item.expr);
      out.height = std::max(out.height, item.height + 1);
      if (!is(op(","))) break;
      comma = true;
      advance();
    }
    if (indices.empty()) fail();
    expect(op("]"));
    if (failed()) return out;
    if (comma) {
      Expr& tuple = *node(ExprKind::kTuple, first, 1).expr;
      tuple.span = between(first, last);
      tuple.items = std::move(indices);
      out.expr->items.push_back(&tuple);
    } else {
      out.expr->items.push_back(indices.front());
    }
    return ended(out);
  }

  Read index() {
    const auto ends = [&] { return is(op(":")) || is(op(",")) || is(op("]")); };
    const Place begin = token().begin;
    std::array<const Expr*, 3> parts{};
    int height = 1;
    if (!is(op(":"))) {
      const Read start = expression();
      if (!is(op(":"))) return start;
      parts[0] = start.expr;
      height = start.height + 1;
    }
    for (std::size_t at = 1; at < 3 && is(op(":")); ++at) {
      advance();
      if (failed() || ends()) continue;
      const Read part = expression();
      parts[at] = part.expr;
      height = std::max(height, part.height + 1);
    }
    Read out = node(ExprKind::kSlice, begin, height);
    out.expr->items.assign(parts.begin(), parts.end());
    return ended(out);
  }

  // ---- statements

  Stmt& statement_node(StmtKind kind) {
    Stmt& s = module_.new_stmt();
    s.kind = kind;
    return s;
  }

  // One logical line with what is indented below it.
  void line(std::vector<const Stmt*>& out, int level) {
    if (is_name("class") || is_name("def")) return definition(out, level);
    while (!failed()) {
      small_statement(out);
      if (!is(op(";"))) break;
      advance();
      if (token().kind == Token::Kind::kLineEnd) break;
    }
    end_line();
  }

  void end_line() {
    if (token().kind != Token::Kind::kLineEnd) fail();
    if (!failed()) begin_line();
  }

  void small_statement(std::vector<const Stmt*>& out) {
    const Place begin = token().begin;
    if (is_name("import") || is_name("from")) return import(out);
    if (is_name("return")) {
      Stmt& s = statement_node(StmtKind::kReturn);
      out.push_back(&s);
      advance();
      if (token().kind != Token::Kind::kLineEnd && !is(op(";"))) s.value = expressions().expr;
      s.span = between(begin, last_end());
      return;
    }
    const Read first = expressions();
    if (failed()) return;
    if (is(op("="))) {
      Stmt& s = statement_node(StmtKind::kAssign);
      out.push_back(&s);
      Read side = first;
      while (is(op("="))) {
        if (!is_target(side)) fail();
        s.exprs.push_back(side.expr);
        advance();
        side = expressions();
      }
      s.value = side.expr;
      s.span = between(begin, last_end());
    } else if (is_augmented(token())) {
      Stmt& s = statement_node(StmtKind::kAugAssign);
      out.push_back(&s);
      if (!is_place(*first.expr) || !bare(first)) fail();
      s.op = token().text.substr(0, token().text.size() - 1);
      s.exprs.push_back(first.expr);
      advance();
      s.value = expressions().expr;
      s.span = between(begin, last_end());
    } else if (first.expr->kind == ExprKind::kCall && bare(first)) {
      Stmt& s = statement_node(StmtKind::kExpr);
      s.value = first.expr;
      s.span = between(begin, last_end());
      out.push_back(&s);
    } else {
      fail();
    }
  }

  // One expression, or several with commas: a tuple without parentheses.
  Read expressions() {
    const Read first = expression();
    if (!is(op(","))) return first;
    Read out = node(ExprKind::kTuple, first.begin, first.height + 1);
    out.expr->items.push_back(first.expr);
    while (is(op(","))) {
      advance();
      if (token().kind == Token::Kind::kLineEnd || is(op(";")) || is(op("="))) break;
      const Read item = expression();
      out.expr->items.push_back(item.expr);
      out.height = std::max(out.height, item.height + 1);
    }
    bare_tuple_ = out.expr;
    return ended(out);
  }

  static bool is_place(const Expr& e) {
    return e.kind == ExprKind::kName || e.kind == ExprKind::kAttribute || e.kind == ExprKind::kSubscript;
  }

  // What may stand to the left of an equals sign and is plain: a name, an attribute or a subscript, a name also in parentheses,
  // and several of them with commas.
  bool is_target(const Read& read) const {
    if (read.expr->kind == ExprKind::kName) return true;
    if (read.expr != bare_tuple_) return is_place(*read.expr) && bare(read);
    return std::all_of(read.expr->items.begin(), read.expr->items.end(),
                       [](const Expr* item) { return item->kind == ExprKind::kName; });
  }

  void import(std::vector<const Stmt*>& out) {
    const Place begin = token().begin;
    const bool from = is_name("from");
    Stmt& s = statement_node(from ? StmtKind::kImportFrom : StmtKind::kImport);
    out.push_back(&s);
    advance();
    if (from) {
      s.text = module_name();
      if (!is_name("import")) return fail();
      advance();
    }
    while (!failed()) {
      ImportedName& imported = s.names.emplace_back();
      imported.name = from ? std::string(name()) : module_name();
      if (is_name("as")) {
        advance();
        imported.alias = name();
      }
      if (!is(op(","))) break;
      advance();
    }
    s.span = between(begin, last_end());
  }

  // Names with dots between them, and nothing else.
  std::string module_name() {
    const std::string_view first = token().text;
    std::string_view last = name();
    while (is(op("."))) {
      if (token().text.data() != last.data() + last.size()) fail();
      advance();
      if (token().text.data() != last.data() + last.size() + 1) fail();
      last = name();
    }
    if (failed()) return {};
    return std::string(first.data(), last.data() + last.size());
  }

  void definition(std::vector<const Stmt*>& out, int level) {
    const Place begin = token().begin;
    const bool is_class = is_name("class");
    Stmt& s = statement_node(is_class ? StmtKind::kClass : StmtKind::kFunction);
    out.push_back(&s);
    advance();
    s.text = name();
    if (!is_class) {
      expect(op("("));
      parameters(s);
    } else if (is(op("("))) {
      advance();
      Read bases = node(ExprKind::kTuple, begin, 1);
      items(bases, op(")"));
      s.exprs = std::move(bases.expr->items);
    }
    expect(op(":"));
    end_line();
    const int inner = indent();
    if (at_end() || inner <= level || ++blocks_ > kMaxNesting) return fail();
    while (!at_end() && indent() == inner) line(s.body, inner);
    --blocks_;
    if (indent() > inner) fail();
    s.span = between(begin, last_end());
  }

  // Names with or without a type (a name with dots) or a default.
  void parameters(Stmt& function) {
    while (!failed() && !is(op(")"))) {
      Parameter& p = function.parameters.emplace_back();
      const Place begin = token().begin;
      p.name = name();
      if (is(op(":"))) {
        advance();
        const Read type = postfix();
        if (!is_dotted(*type.expr) || !bare(type)) return fail();
        p.annotation = type.expr;
      }
      if (is(op("="))) {
        advance();
        p.default_value = expression().expr;
      }
      p.span = between(begin, last_end());
      if (!is(op(","))) break;
      advance();
    }
    expect(op(")"));
  }

  static bool is_dotted(const Expr& e) {
    const Expr* at = &e;
    while (at->kind == ExprKind::kAttribute) at = at->value;
    return at->kind == ExprKind::kName;
  }

  Module module_;
  int signs_ = 0;  // recursions of signs and powers
  int blocks_ = 0;
  const Expr* bare_tuple_ = nullptr;  // the last one that expressions() made
};

}  // namespace

std::optional<Module> read_plain_module(const std::shared_ptr<const SourceBuffer>& source) {
  if (source->text().size() > kMaxSourceBytes) return std::nullopt;
  return Reader(source).read();
}

}  // namespace passnet::pysrc
