#include <tree_sitter/api.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "pysrc/literals.h"
#include "pysrc/parse.h"
#include "pysrc/plain.h"

extern "C" const TSLanguage* tree_sitter_python(void);

namespace passnet::pysrc {

namespace {

enum class Sym : uint8_t {
  kOther,
  kComment,
  kLineContinuation,
  kModule,
  kBlock,
  kExpressionStatement,
  kAssignment,
  kAugmentedAssignment,
  kPatternList,
  kTuplePattern,
  kListPattern,
  kListSplatPattern,
  kDictionarySplatPattern,
  kExpressionList,
  kReturnStatement,
  kPassStatement,
  kDeleteStatement,
  kIfStatement,
  kElifClause,
  kElseClause,
  kForStatement,
  kFunctionDefinition,
  kClassDefinition,
  kDecoratedDefinition,
  kDecorator,
  kImportStatement,
  kImportFromStatement,
  kFutureImportStatement,
  kAliasedImport,
  kWildcardImport,
  kDottedName,
  kRelativeImport,
  kParameters,
  kTypedParameter,
  kDefaultParameter,
  kTypedDefaultParameter,
  kKeywordSeparator,
  kPositionalSeparator,
  kType,
  kIdentifier,
  kInteger,
  kFloat,
  kString,
  kConcatenatedString,
  kTrue,
  kFalse,
  kNone,
  kEllipsis,
  kAttribute,
  kCall,
  kArgumentList,
  kKeywordArgument,
  kListSplat,
  kDictionarySplat,
  kSubscript,
  kSlice,
  kTuple,
  kList,
  kDictionary,
  kPair,
  kSet,
  kUnaryOperator,
  kNotOperator,
  kBinaryOperator,
  kBooleanOperator,
  kComparisonOperator,
  kConditionalExpression,
  kParenthesizedExpression,
  kInterpolation,
  kPrintStatement,
  kExecStatement,
  kComma,
  kColon
};

constexpr std::pair<std::string_view, Sym> kSymNames[] = {
    {"comment", Sym::kComment},
    {"line_continuation", Sym::kLineContinuation},
    {"module", Sym::kModule},
    {"block", Sym::kBlock},
    {"expression_statement", Sym::kExpressionStatement},
    {"assignment", Sym::kAssignment},
    {"augmented_assignment", Sym::kAugmentedAssignment},
    {"pattern_list", Sym::kPatternList},
    {"tuple_pattern", Sym::kTuplePattern},
    {"list_pattern", Sym::kListPattern},
    {"list_splat_pattern", Sym::kListSplatPattern},
    {"dictionary_splat_pattern", Sym::kDictionarySplatPattern},
    {"expression_list", Sym::kExpressionList},
    {"return_statement", Sym::kReturnStatement},
    {"pass_statement", Sym::kPassStatement},
    {"delete_statement", Sym::kDeleteStatement},
    {"if_statement", Sym::kIfStatement},
    {"elif_clause", Sym::kElifClause},
    {"else_clause", Sym::kElseClause},
    {"for_statement", Sym::kForStatement},
    {"function_definition", Sym::kFunctionDefinition},
    {"class_definition", Sym::kClassDefinition},
    {"decorated_definition", Sym::kDecoratedDefinition},
    {"decorator", Sym::kDecorator},
    {"import_statement", Sym::kImportStatement},
    {"import_from_statement", Sym::kImportFromStatement},
    {"future_import_statement", Sym::kFutureImportStatement},
    {"aliased_import", Sym::kAliasedImport},
    {"wildcard_import", Sym::kWildcardImport},
    {"dotted_name", Sym::kDottedName},
    {"relative_import", Sym::kRelativeImport},
    {"parameters", Sym::kParameters},
    {"typed_parameter", Sym::kTypedParameter},
    {"default_parameter", Sym::kDefaultParameter},
    {"typed_default_parameter", Sym::kTypedDefaultParameter},
    {"keyword_separator", Sym::kKeywordSeparator},
    {"positional_separator", Sym::kPositionalSeparator},
    {"type", Sym::kType},
    {"identifier", Sym::kIdentifier},
    {"integer", Sym::kInteger},
    {"float", Sym::kFloat},
    {"string", Sym::kString},
    {"concatenated_string", Sym::kConcatenatedString},
    {"true", Sym::kTrue},
    {"false", Sym::kFalse},
    {"none", Sym::kNone},
    {"ellipsis", Sym::kEllipsis},
    {"attribute", Sym::kAttribute},
    {"call", Sym::kCall},
    {"argument_list", Sym::kArgumentList},
    {"keyword_argument", Sym::kKeywordArgument},
    {"list_splat", Sym::kListSplat},
    {"dictionary_splat", Sym::kDictionarySplat},
    {"subscript", Sym::kSubscript},
    {"slice", Sym::kSlice},
    {"tuple", Sym::kTuple},
    {"list", Sym::kList},
    {"dictionary", Sym::kDictionary},
    {"pair", Sym::kPair},
    {"set", Sym::kSet},
    {"unary_operator", Sym::kUnaryOperator},
    {"not_operator", Sym::kNotOperator},
    {"binary_operator", Sym::kBinaryOperator},
    {"boolean_operator", Sym::kBooleanOperator},
    {"comparison_operator", Sym::kComparisonOperator},
    {"conditional_expression", Sym::kConditionalExpression},
    {"parenthesized_expression", Sym::kParenthesizedExpression},
    {"interpolation", Sym::kInterpolation},
    {"print_statement", Sym::kPrintStatement},
    {"exec_statement", Sym::kExecStatement}};

enum class Field : uint8_t {
  kNone,
  kAlias,
  kAlternative,
  kArgument,
  kArguments,
  kAttribute,
  kBody,
  kCondition,
  kConsequence,
  kDefinition,
  kFunction,
  kLeft,
  kModuleName,
  kName,
  kObject,
  kOperator,
  kOperators,
  kParameters,
  kReturnType,
  kRight,
  kSubscript,
  kSuperclasses,
  kType,
  kValue
};

constexpr std::pair<std::string_view, Field> kFieldNames[] = {{"alias", Field::kAlias},
                                                              {"alternative", Field::kAlternative},
                                                              {"argument", Field::kArgument},
                                                              {"arguments", Field::kArguments},
                                                              {"attribute", Field::kAttribute},
                                                              {"body", Field::kBody},
                                                              {"condition", Field::kCondition},
                                                              {"consequence", Field::kConsequence},
                                                              {"definition", Field::kDefinition},
                                                              {"function", Field::kFunction},
                                                              {"left", Field::kLeft},
                                                              {"module_name", Field::kModuleName},
                                                              {"name", Field::kName},
                                                              {"object", Field::kObject},
                                                              {"operator", Field::kOperator},
                                                              {"operators", Field::kOperators},
                                                              {"parameters", Field::kParameters},
                                                              {"return_type", Field::kReturnType},
                                                              {"right", Field::kRight},
                                                              {"subscript", Field::kSubscript},
                                                              {"superclasses", Field::kSuperclasses},
                                                              {"type", Field::kType},
                                                              {"value", Field::kValue}};

// What the grammar's numbers mean, read from the grammar itself: its numbers change between releases.
struct Tables {
  std::vector<Sym> symbols;
  std::vector<Field> fields;

  static const Tables& get() {
    static const Tables tables = [] {
      Tables out;
      const TSLanguage* language = tree_sitter_python();
      const uint32_t count = ts_language_symbol_count(language);
      out.symbols.assign(count, Sym::kOther);
      for (uint32_t i = 0; i < count; ++i) {
        const std::string_view name = ts_language_symbol_name(language, static_cast<TSSymbol>(i));
        if (ts_language_symbol_type(language, static_cast<TSSymbol>(i)) == TSSymbolTypeRegular) {
          for (const auto& [text, sym] : kSymNames) {
            if (text == name) out.symbols[i] = sym;
          }
        } else if (name == ",") {
          out.symbols[i] = Sym::kComma;
        } else if (name == ":") {
          out.symbols[i] = Sym::kColon;
        }
      }
      const uint32_t fields = ts_language_field_count(language);
      out.fields.assign(fields + 1, Field::kNone);
      for (uint32_t i = 1; i <= fields; ++i) {
        const std::string_view name = ts_language_field_name_for_id(language, static_cast<TSFieldId>(i));
        for (const auto& [text, field] : kFieldNames) {
          if (text == name) out.fields[i] = field;
        }
      }
      return out;
    }();
    return tables;
  }
};

// "for_in_clause" reads "for in clause".
std::string spaced(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', ' ');
  return out;
}

class Converter {
 public:
  explicit Converter(const SyntaxTree& tree)
      : module_(tree.shared_source()),
        source_(*tree.shared_source()),
        cursor_(ts_tree_cursor_new(ts_tree_root_node(tree.get()))) {}
  ~Converter() { ts_tree_cursor_delete(&cursor_); }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  Result<Module> run() {
    std::vector<const Stmt*> body;
    statements(body);
    if (failed_) return std::move(*error_);
    module_.set_body(std::move(body));
    return std::move(module_);
  }

 private:
  Sym sym() const { return tables_.symbols[ts_node_symbol(node())]; }
  TSNode node() const { return ts_tree_cursor_current_node(&cursor_); }
  Field field() const { return tables_.fields[ts_tree_cursor_current_field_id(&cursor_)]; }
  bool named() const { return ts_node_is_named(node()); }
  std::string_view text() const {
    const TSNode n = node();
    const uint32_t begin = ts_node_start_byte(n);
    return source_.text().substr(begin, ts_node_end_byte(n) - begin);
  }
  Span span() const {
    const TSNode n = node();
    const TSPoint a = ts_node_start_point(n);
    const TSPoint b = ts_node_end_point(n);
    return {static_cast<int>(a.row) + 1, static_cast<int>(a.column) + 1, static_cast<int>(b.row) + 1,
            static_cast<int>(b.column) + 1};
  }

  void fail(Diagnostic d) {
    if (!failed_) error_.emplace(std::move(d));
    failed_ = true;
  }
  bool too_deep() {
    if (depth_ < kMaxDepth) return false;
    fail(user_error("pysrc.depth", "nested deeper than " + std::to_string(kMaxDepth) + " levels")
             .at(source_.name(), {span().line, span().col, 0, 0})
             .with_hint("Split the expression into several statements."));
    return true;
  }

  // fn() with the cursor on each child that is no comment; fn may move the cursor below that child.
  template <class Fn>
  void children(Fn&& fn) {
    if (failed_ || too_deep() || !ts_tree_cursor_goto_first_child(&cursor_)) return;
    ++depth_;
    do {
      const Sym s = sym();
      if (s == Sym::kComment || s == Sym::kLineContinuation) continue;
      fn(s);
    } while (!failed_ && ts_tree_cursor_goto_next_sibling(&cursor_));
    // After a failure the cursor's place no longer matters.
    if (!failed_) ts_tree_cursor_goto_parent(&cursor_);
    --depth_;
  }

  Expr& expr_node(ExprKind kind) {
    Expr& e = module_.new_expr();
    e.kind = kind;
    e.span = span();
    return e;
  }

  const Expr* unsupported(std::string construct) {
    Expr& e = expr_node(ExprKind::kUnsupported);
    e.text = std::move(construct);
    return &e;
  }

  const Expr* number() {
    const std::optional<NumberLiteral> literal = read_number(text());
    if (!literal) return unsupported("number literal");
    using Kind = NumberLiteral::Kind;
    Expr& e = expr_node(literal->kind == Kind::kInt     ? ExprKind::kInt
                        : literal->kind == Kind::kFloat ? ExprKind::kFloat
                                                        : ExprKind::kImaginary);
    e.integer = literal->integer;
    e.real = literal->real;
    e.overflow = literal->overflow;
    if (e.overflow) e.text = text();
    return &e;
  }

  const Expr* string() {
    const StringLiteral literal = read_string(text());
    switch (literal.problem) {
      case StringLiteral::Problem::kBytes: return unsupported("bytes literal");
      case StringLiteral::Problem::kFormatted: return unsupported("f-string");
      case StringLiteral::Problem::kBadEscape: return unsupported("string escape");
      case StringLiteral::Problem::kNone: break;
    }
    Expr& e = expr_node(ExprKind::kString);
    e.text = literal.value;
    return &e;
  }

  // All expressions among the children, as the items of a new node.
  const Expr* sequence(ExprKind kind) {
    Expr& e = expr_node(kind);
    children([&](Sym) {
      if (named()) e.items.push_back(expr());
    });
    return &e;
  }

  const Expr* expr() {
    switch (sym()) {
      case Sym::kIdentifier: {
        Expr& e = expr_node(ExprKind::kName);
        e.text = text();
        return &e;
      }
      case Sym::kInteger:
      case Sym::kFloat: return number();
      case Sym::kString: return string();
      case Sym::kConcatenatedString: {
        Expr& e = expr_node(ExprKind::kString);
        const Expr* bad = nullptr;
        children([&](Sym) {
          const Expr* part = expr();
          if (part->kind != ExprKind::kString) bad = part;
          e.text += part->text;
        });
        return bad ? bad : &e;
      }
      case Sym::kTrue: return &expr_node(ExprKind::kTrue);
      case Sym::kFalse: return &expr_node(ExprKind::kFalse);
      case Sym::kNone: return &expr_node(ExprKind::kNone);
      case Sym::kEllipsis: return &expr_node(ExprKind::kEllipsis);
      case Sym::kAttribute: {
        Expr& e = expr_node(ExprKind::kAttribute);
        children([&](Sym) {
          if (field() == Field::kObject) e.value = expr();
          if (field() == Field::kAttribute) e.text = text();
        });
        return &e;
      }
      case Sym::kCall: return call();
      case Sym::kSubscript: return subscript();
      case Sym::kSlice: {
        Expr& e = expr_node(ExprKind::kSlice);
        e.items.assign(3, nullptr);
        std::size_t at = 0;
        children([&](Sym s) {
          if (s == Sym::kColon) {
            at = std::min<std::size_t>(at + 1, 2);
          } else if (named()) {
            e.items[at] = expr();
          }
        });
        return &e;
      }
      case Sym::kTuplePattern: {
        // `(a) = x` assigns to a name; only the comma makes a tuple.
        Expr& e = expr_node(ExprKind::kTuple);
        bool comma = false;
        children([&](Sym s) {
          comma |= s == Sym::kComma;
          if (named()) e.items.push_back(expr());
        });
        return e.items.size() == 1 && !comma ? e.items.front() : &e;
      }
      case Sym::kTuple:
      case Sym::kPatternList:
      case Sym::kExpressionList: return sequence(ExprKind::kTuple);
      case Sym::kList:
      case Sym::kListPattern: return sequence(ExprKind::kList);
      case Sym::kSet: return sequence(ExprKind::kSet);
      case Sym::kDictionary: {
        Expr& e = expr_node(ExprKind::kDict);
        const Expr* bad = nullptr;
        children([&](Sym s) {
          if (s == Sym::kPair) {
            children([&](Sym) {
              if (named()) e.items.push_back(expr());
            });
          } else if (named()) {
            bad = unsupported("unpacking in a dict");
          }
        });
        return bad ? bad : &e;
      }
      case Sym::kListSplat:
      case Sym::kListSplatPattern: {
        Expr& e = expr_node(ExprKind::kStarred);
        children([&](Sym) {
          if (named()) e.value = expr();
        });
        return &e;
      }
      case Sym::kUnaryOperator:
      case Sym::kNotOperator: {
        Expr& e = expr_node(ExprKind::kUnary);
        if (sym() == Sym::kNotOperator) e.ops.emplace_back("not");
        children([&](Sym) {
          if (field() == Field::kOperator) e.ops.emplace_back(text());
          if (field() == Field::kArgument) e.value = expr();
        });
        return &e;
      }
      case Sym::kBinaryOperator:
      case Sym::kBooleanOperator: {
        Expr& e = expr_node(sym() == Sym::kBinaryOperator ? ExprKind::kBinary : ExprKind::kBoolOp);
        children([&](Sym) {
          const Field f = field();
          if (f == Field::kOperator) e.ops.emplace_back(text());
          if (f == Field::kLeft || f == Field::kRight) e.items.push_back(expr());
        });
        return &e;
      }
      case Sym::kComparisonOperator: {
        Expr& e = expr_node(ExprKind::kCompare);
        children([&](Sym) {
          if (field() == Field::kOperators) {
            e.ops.emplace_back(text());
          } else if (named()) {
            e.items.push_back(expr());
          }
        });
        return &e;
      }
      case Sym::kConditionalExpression: {
        Expr& e = expr_node(ExprKind::kConditional);
        children([&](Sym) {
          if (named()) e.items.push_back(expr());
        });
        if (e.items.size() == 3) std::swap(e.items[0], e.items[1]);
        return &e;
      }
      case Sym::kParenthesizedExpression:
      case Sym::kType: {
        const Expr* inner = nullptr;
        children([&](Sym) {
          if (named() && inner == nullptr) inner = expr();
        });
        return inner ? inner : unsupported("empty parentheses");
      }
      default: {
        const std::string name = spaced(ts_node_type(node()));
        return unsupported(name);
      }
    }
  }

  const Expr* call() {
    Expr& e = expr_node(ExprKind::kCall);
    children([&](Sym s) {
      if (field() == Field::kFunction) e.value = expr();
      if (field() != Field::kArguments) return;
      if (s != Sym::kArgumentList) {
        e.items.push_back(expr());  // f(x for x in y)
        return;
      }
      children([&](Sym arg) {
        if (!named()) return;
        if (arg != Sym::kKeywordArgument && arg != Sym::kDictionarySplat) {
          e.items.push_back(expr());
          return;
        }
        Keyword keyword;
        keyword.span = span();
        children([&](Sym) {
          if (field() == Field::kName) {
            keyword.name = text();
          } else if (named()) {
            keyword.value = expr();
          }
        });
        e.keywords.push_back(std::move(keyword));
      });
    });
    return &e;
  }

  const Expr* subscript() {
    Expr& e = expr_node(ExprKind::kSubscript);
    std::vector<const Expr*> indices;
    bool comma = false;
    Span where;
    children([&](Sym s) {
      if (field() == Field::kValue) {
        e.value = expr();
      } else if (s == Sym::kComma) {
        comma = true;
      } else if (field() == Field::kSubscript) {
        const Span here = span();
        if (indices.empty()) where = here;
        where.end_line = here.end_line;
        where.end_col = here.end_col;
        indices.push_back(expr());
      }
    });
    if (comma || indices.size() != 1) {
      Expr& tuple = expr_node(ExprKind::kTuple);
      tuple.span = where;
      tuple.items = std::move(indices);
      e.items.push_back(&tuple);
    } else {
      e.items.push_back(indices.front());
    }
    return &e;
  }

  Stmt& stmt_node(StmtKind kind) {
    Stmt& s = module_.new_stmt();
    s.kind = kind;
    s.span = span();
    return s;
  }

  // The statements among the children of the current node.
  void statements(std::vector<const Stmt*>& out) {
    children([&](Sym) {
      if (named()) statement(out);
    });
  }

  void statement(std::vector<const Stmt*>& out) {
    switch (sym()) {
      case Sym::kExpressionStatement: return expression_statement(out);
      case Sym::kReturnStatement: {
        Stmt& s = stmt_node(StmtKind::kReturn);
        out.push_back(&s);
        return children([&](Sym) {
          if (named()) s.value = expr();
        });
      }
      case Sym::kPassStatement: out.push_back(&stmt_node(StmtKind::kPass)); return;
      case Sym::kDeleteStatement: {
        Stmt& s = stmt_node(StmtKind::kDelete);
        out.push_back(&s);
        return children([&](Sym) {
          if (!named()) return;
          const Expr* e = expr();
          if (e->kind == ExprKind::kTuple) {
            s.exprs.insert(s.exprs.end(), e->items.begin(), e->items.end());
          } else {
            s.exprs.push_back(e);
          }
        });
      }
      case Sym::kIfStatement: return if_statement(out);
      case Sym::kForStatement: {
        Stmt& s = stmt_node(StmtKind::kFor);
        out.push_back(&s);
        return children([&](Sym) {
          switch (field()) {
            case Field::kLeft: s.exprs.push_back(expr()); break;
            case Field::kRight: s.value = expr(); break;
            case Field::kBody: statements(s.body); break;
            case Field::kAlternative: else_clause(s.orelse); break;
            default:
              if (text() == "async") s.is_async = true;
          }
        });
      }
      case Sym::kFunctionDefinition: return function_definition(out, {});
      case Sym::kClassDefinition: return class_definition(out, {});
      case Sym::kDecoratedDefinition: {
        std::vector<const Expr*> decorators;
        return children([&](Sym s) {
          if (s == Sym::kDecorator) {
            children([&](Sym) {
              if (named()) decorators.push_back(expr());
            });
          } else if (s == Sym::kFunctionDefinition) {
            function_definition(out, decorators);
          } else if (s == Sym::kClassDefinition) {
            class_definition(out, decorators);
          }
        });
      }
      case Sym::kImportStatement:
      case Sym::kImportFromStatement:
      case Sym::kFutureImportStatement: return import(out);
      case Sym::kPrintStatement:
      case Sym::kExecStatement:
        return fail(user_error("pysrc.syntax", "this statement is Python 2")
                        .at(source_.name(), span())
                        .with_hint("Write it as a call, as Python 3 does."));
      default: {
        Stmt& s = stmt_node(StmtKind::kUnsupported);
        s.text = spaced(ts_node_type(node()));
        out.push_back(&s);
      }
    }
  }

  void expression_statement(std::vector<const Stmt*>& out) {
    std::vector<const Expr*> items;
    bool comma = false;
    const Span whole = span();
    children([&](Sym s) {
      if (s == Sym::kAssignment || s == Sym::kAugmentedAssignment) {
        assignment(out);
      } else if (s == Sym::kComma) {
        comma = true;
      } else if (named()) {
        items.push_back(expr());
      }
    });
    if (items.empty()) return;
    Stmt& s = stmt_node(StmtKind::kExpr);
    s.value = items.front();
    if (comma) {
      Expr& tuple = expr_node(ExprKind::kTuple);
      tuple.span = whole;
      tuple.items = std::move(items);
      s.value = &tuple;
    }
    out.push_back(&s);
  }

  // The cursor stands on an assignment; chained ones (`a = b = c`) are nested to the right.
  void assignment(std::vector<const Stmt*>& out) {
    const bool augmented = sym() == Sym::kAugmentedAssignment;
    Stmt& s = stmt_node(augmented ? StmtKind::kAugAssign : StmtKind::kAssign);
    out.push_back(&s);
    int levels = 0;
    for (bool inside = true; inside && !failed_;) {
      inside = false;
      if (!ts_tree_cursor_goto_first_child(&cursor_)) break;
      ++levels;
      for (;;) {
        const Sym here = sym();
        const Field f = field();
        if (f == Field::kLeft) {
          s.exprs.push_back(expr());
        } else if (f == Field::kType) {
          s.annotation = expr();
        } else if (f == Field::kOperator) {
          s.op = text();
          if (!s.op.empty() && s.op.back() == '=') s.op.pop_back();
        } else if (f == Field::kRight) {
          if (here == Sym::kAssignment) {
            inside = true;
            break;
          }
          s.value = expr();
        }
        if (failed_) return;
        if (!ts_tree_cursor_goto_next_sibling(&cursor_)) break;
      }
    }
    while (levels-- > 0) ts_tree_cursor_goto_parent(&cursor_);
    if (s.value == nullptr && !augmented) s.kind = StmtKind::kAnnotation;
    for (const Expr* target : s.exprs) check_target(*target);
  }

  // The grammar takes any expression to the left of an equals sign.
  void check_target(const Expr& target) {
    switch (target.kind) {
      case ExprKind::kName:
      case ExprKind::kAttribute:
      case ExprKind::kSubscript: return;
      case ExprKind::kStarred: return check_target(*target.value);
      case ExprKind::kTuple:
      case ExprKind::kList:
        for (const Expr* item : target.items) check_target(*item);
        return;
      default:
        fail(user_error("pysrc.syntax", "cannot assign to this " + std::string(describe(target)))
                 .at(source_.name(), target.span)
                 .with_hint(
                     "The left of an assignment is a name, an attribute, a subscript or a tuple of them."));
    }
  }

  void else_clause(std::vector<const Stmt*>& out) {
    children([&](Sym) {
      if (field() == Field::kBody) statements(out);
    });
  }

  void if_statement(std::vector<const Stmt*>& out) {
    Stmt* s = &stmt_node(StmtKind::kIf);
    out.push_back(s);
    children([&](Sym here) {
      switch (field()) {
        case Field::kCondition: s->value = expr(); break;
        case Field::kConsequence: statements(s->body); break;
        case Field::kAlternative:
          if (here == Sym::kElifClause) {
            Stmt& nested = stmt_node(StmtKind::kIf);
            s->orelse.push_back(&nested);
            s = &nested;
            children([&](Sym) {
              if (field() == Field::kCondition) nested.value = expr();
              if (field() == Field::kConsequence) statements(nested.body);
            });
          } else {
            else_clause(s->orelse);
          }
          break;
        default: break;
      }
    });
  }

  void class_definition(std::vector<const Stmt*>& out, std::vector<const Expr*> decorators) {
    Stmt& s = stmt_node(StmtKind::kClass);
    s.decorators = std::move(decorators);
    out.push_back(&s);
    children([&](Sym) {
      switch (field()) {
        case Field::kName: s.text = text(); break;
        case Field::kSuperclasses:
          children([&](Sym) {
            if (named()) s.exprs.push_back(expr());
          });
          break;
        case Field::kBody: statements(s.body); break;
        default: break;
      }
    });
  }

  void function_definition(std::vector<const Stmt*>& out, std::vector<const Expr*> decorators) {
    Stmt& s = stmt_node(StmtKind::kFunction);
    s.decorators = std::move(decorators);
    out.push_back(&s);
    children([&](Sym) {
      switch (field()) {
        case Field::kName: s.text = text(); break;
        case Field::kParameters: parameters(s); break;
        case Field::kReturnType: s.annotation = expr(); break;
        case Field::kBody: statements(s.body); break;
        default:
          if (text() == "async") s.is_async = true;
      }
    });
  }

  void parameters(Stmt& function) {
    bool keyword_only = false;
    children([&](Sym s) {
      if (s == Sym::kKeywordSeparator) keyword_only = true;
      if (!named() || s == Sym::kKeywordSeparator || s == Sym::kPositionalSeparator) return;
      Parameter p;
      p.span = span();
      p.keyword_only = keyword_only;
      name_of_parameter(p, s);
      if (s == Sym::kTypedParameter || s == Sym::kDefaultParameter || s == Sym::kTypedDefaultParameter) {
        children([&](Sym inner) {
          switch (field()) {
            case Field::kType: p.annotation = expr(); break;
            case Field::kValue: p.default_value = expr(); break;
            default: name_of_parameter(p, inner);
          }
        });
      }
      if (p.kind == Parameter::Kind::kStar) keyword_only = true;
      function.parameters.push_back(std::move(p));
    });
  }

  void name_of_parameter(Parameter& p, Sym s) {
    if (s == Sym::kIdentifier) p.name = text();
    if (s != Sym::kListSplatPattern && s != Sym::kDictionarySplatPattern) return;
    p.kind = s == Sym::kListSplatPattern ? Parameter::Kind::kStar : Parameter::Kind::kDoubleStar;
    children([&](Sym inner) {
      if (inner == Sym::kIdentifier) p.name = text();
    });
  }

  void import(std::vector<const Stmt*>& out) {
    const Sym kind = sym();
    Stmt& s = stmt_node(kind == Sym::kImportStatement ? StmtKind::kImport : StmtKind::kImportFrom);
    out.push_back(&s);
    if (kind == Sym::kFutureImportStatement) s.text = "__future__";
    children([&](Sym here) {
      if (field() == Field::kModuleName) {
        s.text = text();
      } else if (here == Sym::kWildcardImport) {
        s.names.push_back({"*", {}});
      } else if (here == Sym::kAliasedImport) {
        ImportedName name;
        children([&](Sym) {
          if (field() == Field::kName) name.name = text();
          if (field() == Field::kAlias) name.alias = text();
        });
        s.names.push_back(std::move(name));
      } else if (field() == Field::kName) {
        s.names.push_back({std::string(text()), {}});
      }
    });
  }

  Module module_;
  const SourceBuffer& source_;
  TSTreeCursor cursor_;
  const Tables& tables_ = Tables::get();
  int depth_ = 0;
  bool failed_ = false;
  std::optional<Diagnostic> error_;
};

}  // namespace

Result<Module> to_module(const SyntaxTree& tree) { return Converter(tree).run(); }

Result<Module> parse_module(std::shared_ptr<const SourceBuffer> source) {
  if (std::optional<Module> plain = read_plain_module(source)) return *std::move(plain);
  PN_TRY(const SyntaxTree tree, SyntaxTree::parse(std::move(source)));
  return to_module(tree);
}

Result<Module> parse_module(SourceBuffer source) {
  return parse_module(std::make_shared<const SourceBuffer>(std::move(source)));
}

}  // namespace passnet::pysrc
