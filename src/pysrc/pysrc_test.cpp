#include <gtest/gtest.h>

#include <chrono>

#include <string>

#include "base/files.h"
#include "pysrc/literals.h"
#include "pysrc/parse.h"

namespace passnet::pysrc {
namespace {

Result<Module> parse(std::string text) { return parse_module(SourceBuffer("m.py", std::move(text))); }

// The expression of `x = <text>`.
struct Parsed {
  Module module;
  const Expr& expr;
};
Parsed expression(const std::string& text) {
  Result<Module> m = parse("x = " + text + "\n");
  EXPECT_TRUE(m.ok()) << text << ": " << (m.ok() ? "" : m.error().message);
  Module module = std::move(m).value();
  const Expr& e = *module.body().front()->value;
  return {std::move(module), e};
}

std::string error_of(std::string text) {
  const Result<Module> m = parse(std::move(text));
  if (m.ok()) return "parsed";
  const Diagnostic& d = m.error();
  return d.code + " " + std::to_string(d.span.line) + ":" + std::to_string(d.span.col) + " " + d.message;
}

TEST(Pysrc, NumbersReadAsPythonReadsThem) {
  EXPECT_EQ(expression("0x1F").expr.integer, 31);
  EXPECT_EQ(expression("1_000").expr.integer, 1000);
  EXPECT_EQ(expression("9223372036854775807").expr.integer, INT64_MAX);
  EXPECT_TRUE(expression("9223372036854775808").expr.overflow);
  EXPECT_EQ(expression("1e-05").expr.real, 1e-05);
  EXPECT_EQ(expression("1e-05").expr.kind, ExprKind::kFloat);
  EXPECT_EQ(expression(".5").expr.real, 0.5);
  EXPECT_EQ(expression("1e400").expr.real, std::numeric_limits<double>::infinity());
  EXPECT_EQ(expression("1e-400").expr.real, 0.0);
  EXPECT_EQ(expression("2j").expr.kind, ExprKind::kImaginary);
}

TEST(Pysrc, StringsResolveEscapesAndJoin) {
  EXPECT_EQ(expression(R"('a\n\x41\u00e9\101\q')").expr.text,
            "a\nA\xc3\xa9"
            "A\\q");
  EXPECT_EQ(expression(R"(r'a\n')").expr.text, "a\\n");
  EXPECT_EQ(expression(R"("""a'b""")").expr.text, "a'b");
  EXPECT_EQ(expression("'a' \"b\"").expr.text, "ab");
  EXPECT_EQ(expression("f'{x}'").expr.kind, ExprKind::kUnsupported);
  EXPECT_EQ(describe(expression("b'a'").expr), "bytes literal");
}

TEST(Pysrc, SubscriptsTellTuplesFromSingleIndices) {
  const Parsed one = expression("a[1]");
  EXPECT_EQ(one.expr.items.front()->kind, ExprKind::kInt);
  const Parsed tuple = expression("a[..., 1:2, ::-1, None]");
  ASSERT_EQ(tuple.expr.items.front()->kind, ExprKind::kTuple);
  const auto& items = tuple.expr.items.front()->items;
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0]->kind, ExprKind::kEllipsis);
  EXPECT_EQ(items[1]->items[0]->integer, 1);
  EXPECT_EQ(items[1]->items[1]->integer, 2);
  EXPECT_EQ(items[1]->items[2], nullptr);
  EXPECT_EQ(items[2]->items[0], nullptr);
  EXPECT_EQ(items[2]->items[2]->kind, ExprKind::kUnary);
  EXPECT_EQ(expression("a[1,]").expr.items.front()->kind, ExprKind::kTuple);
}

TEST(Pysrc, OperatorsKeepTheirOrder) {
  const Parsed chain = expression("a < b <= c");
  EXPECT_EQ(chain.expr.ops, (std::vector<std::string>{"<", "<="}));
  EXPECT_EQ(chain.expr.items.size(), 3u);
  const Parsed not_in = expression("a not in b");
  EXPECT_EQ(not_in.expr.ops.front(), "not in");
  const Parsed conditional = expression("a if c else b");
  EXPECT_EQ(conditional.expr.items[0]->text, "c");
  EXPECT_EQ(conditional.expr.items[1]->text, "a");
  EXPECT_EQ(expression("-a ** 2").expr.kind, ExprKind::kUnary);
}

TEST(Pysrc, StatementsOfExtractedGraphs) {
  const Result<Module> m = parse(
      "import torch\nfrom torch import device as d, inf\n\nclass G(torch.nn.Module):\n    \n    \n"
      "    def forward(self, a : torch.Tensor, b=1, *, c):\n"
      "        x = a + 1;  a = None\n        p = q = r = None\n        x += b\n        u, (v, w) = x\n"
      "        x[0, :] = 3\n        return (x,)\n        ");
  ASSERT_TRUE(m.ok()) << m.error().message;
  EXPECT_EQ(m->body()[1]->names[0].alias, "d");
  const Stmt* g = m->find_class("G");
  ASSERT_NE(g, nullptr);
  const Stmt* f = Module::find(g->body, StmtKind::kFunction, "forward");
  ASSERT_NE(f, nullptr);
  ASSERT_EQ(f->parameters.size(), 4u);
  EXPECT_EQ(dotted_name(*f->parameters[1].annotation), "torch.Tensor");
  EXPECT_EQ(f->parameters[2].default_value->integer, 1);
  EXPECT_TRUE(f->parameters[3].keyword_only);
  ASSERT_EQ(f->body.size(), 7u);
  EXPECT_EQ(f->body[2]->exprs.size(), 3u);
  EXPECT_EQ(f->body[3]->op, "+");
  EXPECT_EQ(f->body[4]->exprs[0]->items[1]->kind, ExprKind::kTuple);
  EXPECT_EQ(f->body[5]->exprs[0]->kind, ExprKind::kSubscript);
  EXPECT_EQ(f->span.line, 7);
  EXPECT_EQ(f->body[0]->span, (Span{8, 9, 8, 18}));
}

TEST(Pysrc, ParenthesesAroundATargetAreNoTuple) {
  const Result<Module> m = parse("a = (\n    b\n) = None\n(c,) = (d) = e\n");
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->body()[0]->exprs[1]->kind, ExprKind::kName);
  EXPECT_EQ(m->body()[1]->exprs[0]->kind, ExprKind::kTuple);
  EXPECT_EQ(m->body()[1]->exprs[1]->kind, ExprKind::kName);
}

TEST(Pysrc, WhatIsOutsideTheSubsetStaysWithItsName) {
  const Result<Module> m =
      parse("with a as b:\n  pass\nx = [i for i in y]\nz = lambda: 1\nwhile x:\n  pass\n");
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(describe(*m->body()[0]), "with statement");
  EXPECT_EQ(describe(*m->body()[1]->value), "list comprehension");
  EXPECT_EQ(describe(*m->body()[2]->value), "lambda");
  EXPECT_EQ(describe(*m->body()[3]), "while statement");
}

TEST(Pysrc, SyntaxErrorsNameThePlace) {
  EXPECT_EQ(error_of("x = (1,\ny = 2\n").substr(0, 14), "pysrc.syntax 2");
  EXPECT_EQ(error_of("def f(:\n  pass\n").substr(0, 14), "pysrc.syntax 1");
  EXPECT_EQ(error_of("f(x) = 3\n"), "pysrc.syntax 1:6 this is not valid Python, at '='");
  EXPECT_EQ(error_of("print 'a'\n"), "pysrc.syntax 1:1 this statement is Python 2");
}

TEST(Pysrc, DeepNestingIsADiagnostic) {
  const int deep = 20000;
  EXPECT_EQ(error_of("x = " + std::string(deep, '(') + "1" + std::string(deep, ')') + "\n").substr(0, 11),
            "pysrc.depth");
  EXPECT_EQ(error_of("x = " + std::string(deep, '-') + "1\n").substr(0, 11), "pysrc.depth");
  std::string sum = "x = 1";
  for (int i = 0; i < deep; ++i) sum += " + 1";
  EXPECT_EQ(error_of(sum + "\n").substr(0, 11), "pysrc.depth");
  EXPECT_EQ(error_of("x = " + std::string(100, '(') + "1" + std::string(100, ')') + "\n"), "parsed");
}

TEST(Pysrc, LongChainsOfAssignmentAreNoNesting) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "a = ";
  const Result<Module> m = parse(text + "None\n");
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->body()[0]->exprs.size(), 20000u);
}

TEST(Pysrc, FilesThatAreNoSource) {
  MemoryFiles files({{"/binary.py", std::string("\x7f"
                                                "ELF\x00\x01",
                                                6)},
                     {"/latin.py", "# \xe9\n"},
                     {"/ok.py", "x = 1\n"}});
  EXPECT_TRUE(read_source(files, "/ok.py").ok());
  for (const char* path : {"/binary.py", "/latin.py", "/missing.py"}) {
    const Result<SourceBuffer> r = read_source(files, path, "shown.py");
    ASSERT_FALSE(r.ok()) << path;
    EXPECT_EQ(r.error().file, "shown.py");
    EXPECT_FALSE(r.error().hint.empty()) << path;
  }
  EXPECT_EQ(read_source(files, "/missing.py").error().code, "file.missing");
  EXPECT_EQ(read_source(files, "/ok.py", {}, 3).error().code, "file.too_large");
}

// Damaged source must give a tree or a diagnostic, never a crash.
TEST(Pysrc, DamagedSourceNeverCrashes) {
  const std::string base =
      "import torch\nclass G(torch.nn.Module):\n    def forward(self, a, b):\n        x = torch.cat([a, b], "
      "dim=-1)[..., 1:]\n"
      "        x += 'q\\x41' if b else {1: (2.5e-3,)}\n        return (x,)\n";
  unsigned seed = 1;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  const std::string alphabet = "()[]{}:,.=+-*'\"\\ \n\tdefclass0a\xc3\xa9";
  int parsed = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = base;
    for (unsigned n = next() % 4 + 1; n > 0; --n) {
      const std::size_t at = next() % text.size();
      switch (next() % 3) {
        case 0: text.erase(at, next() % 8 + 1); break;
        case 1: text.insert(at, 1, alphabet[next() % alphabet.size()]); break;
        default: text[at] = alphabet[next() % alphabet.size()];
      }
      if (text.empty()) text = "x";
    }
    (parse(text).ok() ? parsed : refused)++;
  }
  EXPECT_GT(parsed, 50);
  EXPECT_GT(refused, 200);
}

// The parser would try repairs for minutes.
TEST(Parse, MuchThatIsNoPythonEndsSoon) {
  std::string text = "def f():\n    return if";
  for (int i = 0; i < 20000; ++i) text += " + if";
  const auto started = std::chrono::steady_clock::now();
  const Result<Module> module = parse_module(SourceBuffer("m.py", text + "\n"));
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, "pysrc.timeout");
  EXPECT_FALSE(module.error().hint.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(60));  // of a busy machine
}

}  // namespace
}  // namespace passnet::pysrc
