#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"

// Python syntax as the interpreter of graphs and the reader of metadata see it: the whole module is represented, and
// what lies outside the subset stays in it as a node of kind kUnsupported with the construct's name, so that only code
// that really evaluates such a node has to refuse it.

namespace passnet::pysrc {

struct Expr;
struct Stmt;

enum class ExprKind : uint8_t {
  kName,       // text
  kInt,        // integer; text holds the digits where they do not fit 64 bits (`overflow`)
  kFloat,      // real
  kImaginary,  // real, the part before the j
  kString,     // text, escapes resolved, adjacent literals joined; bytes literals are kUnsupported
  kTrue,
  kFalse,
  kNone,
  kEllipsis,
  kAttribute,    // value . text
  kCall,         // value(items, keywords); a starred argument is an item of kind kStarred
  kSubscript,    // value[items[0]]: a tuple where several are written
  kSlice,        // items: start, stop, step, null where left out
  kTuple,        // items
  kList,         // items
  kDict,         // items: key, value, key, value, ...
  kSet,          // items
  kUnary,        // op value, op one of - + ~ not
  kBinary,       // items[0] op items[1]
  kBoolOp,       // items[0] op items[1], op one of and or
  kCompare,      // items[0] ops[0] items[1] ops[1] items[2] ...
  kConditional,  // items: condition, then, else
  kStarred,      // *value
  kUnsupported   // text: "list comprehension", "lambda", "f-string", ...
};

struct Keyword {
  std::string name;  // empty for **value
  const Expr* value = nullptr;
  Span span;
};

struct Expr {
  ExprKind kind = ExprKind::kUnsupported;
  bool overflow = false;
  Span span;
  std::string text;
  int64_t integer = 0;
  double real = 0;
  const Expr* value = nullptr;
  std::vector<const Expr*> items;
  std::vector<std::string> ops;
  std::vector<Keyword> keywords;

  const std::string& op() const { return ops.front(); }
};

struct Parameter {
  enum class Kind : uint8_t { kNormal, kStar, kDoubleStar };
  Kind kind = Kind::kNormal;
  bool keyword_only = false;
  std::string name;
  const Expr* annotation = nullptr;
  const Expr* default_value = nullptr;
  Span span;
};

enum class StmtKind : uint8_t {
  kImport,      // names
  kImportFrom,  // text: the module ("." in front for relative ones); names, "*" alone for all
  kClass,       // text, exprs: bases; decorators; body
  kFunction,    // text, parameters, decorators, body; `is_async`
  kAssign,      // exprs: targets, left to right; value; annotation
  kAugAssign,   // exprs[0] op value, op without the "="
  kAnnotation,  // `x: int`: exprs[0], annotation
  kExpr,        // value
  kReturn,      // value or null
  kPass,
  kDelete,      // exprs
  kIf,          // value, body, orelse
  kFor,         // exprs[0] in value, body, orelse
  kUnsupported  // text: "while loop", "with statement", ...
};

struct ImportedName {
  std::string name;   // dotted for `import a.b`
  std::string alias;  // empty without `as`
};

struct Stmt {
  StmtKind kind = StmtKind::kUnsupported;
  bool is_async = false;
  Span span;
  std::string text;
  std::string op;
  std::vector<ImportedName> names;
  std::vector<Parameter> parameters;
  std::vector<const Expr*> exprs;
  std::vector<const Expr*> decorators;
  const Expr* value = nullptr;
  const Expr* annotation = nullptr;
  std::vector<const Stmt*> body;
  std::vector<const Stmt*> orelse;
};

// A parsed file. Owns its nodes; they live as long as it does and never move.
class Module {
 public:
  explicit Module(std::shared_ptr<const SourceBuffer> source) : source_(std::move(source)) {}
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  const SourceBuffer& source() const { return *source_; }
  const std::shared_ptr<const SourceBuffer>& shared_source() const { return source_; }
  const std::string& file() const { return source_->name(); }
  const std::vector<const Stmt*>& body() const { return body_; }

  // The last top-level class or function of that name (Python keeps the last); null if there is none.
  const Stmt* find_class(std::string_view name) const { return find(body_, StmtKind::kClass, name); }
  const Stmt* find_function(std::string_view name) const { return find(body_, StmtKind::kFunction, name); }
  static const Stmt* find(const std::vector<const Stmt*>& body, StmtKind kind, std::string_view name);

  Expr& new_expr() { return exprs_.emplace_back(); }
  Stmt& new_stmt() { return stmts_.emplace_back(); }
  void set_body(std::vector<const Stmt*> body) { body_ = std::move(body); }

 private:
  std::shared_ptr<const SourceBuffer> source_;
  std::deque<Expr> exprs_;
  std::deque<Stmt> stmts_;
  std::vector<const Stmt*> body_;
};

// The dotted name an expression spells (`torch.nn.functional.gelu`), empty if it is no chain of names.
std::string dotted_name(const Expr& expr);
// "call", "attribute", "list comprehension": what to call the expression in a message.
std::string_view describe(const Expr& expr);
std::string_view describe(const Stmt& stmt);

}  // namespace passnet::pysrc
