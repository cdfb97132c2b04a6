#include "pysrc/plain.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "pysrc/module_dump.h"
#include "pysrc/parse.h"

namespace passnet::pysrc {
namespace {

enum class Reading { kPlain, kLeft, kRefusedByTree, kDiffers };

// How the text is read, and whether the tree reads the same.
Reading reading(const std::string& text) {
  const auto source = std::make_shared<const SourceBuffer>("m.py", text);
  const std::optional<Module> plain = read_plain_module(source);
  if (!plain) return Reading::kLeft;
  const Result<SyntaxTree> tree = SyntaxTree::parse(source);
  if (!tree.ok()) return Reading::kRefusedByTree;
  const Result<Module> module = to_module(*tree);
  if (!module.ok()) return Reading::kRefusedByTree;
  return ModuleDump::of(*plain) == ModuleDump::of(*module) ? Reading::kPlain : Reading::kDiffers;
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  while (times-- > 0) out += text;
  return out;
}

constexpr std::string_view kGraph =
    "import torch\nimport torch.nn.functional as F, math\nfrom torch import device, inf as i\n\n   \n"
    "class GraphModule(torch.nn.Module):\n\n"
    "    def forward(\n        self,\n        a : torch.Tensor,\n"
    "        b: torch.nn.parameter.Parameter,\n        n=2, k: int = -3,\n    ):\n"
    "        t = a;  u = t.view(2, -1, b.shape[0])[..., 1:];  t = None\n"
    "        u += 1.5\n"
    "        d, e = torch.functional.split(b, [2, 6], dim=1)\n"
    "        b[:, 0] = d[:, 0] * (3 // 2)\n"
    "        (\n            a_1\n        ) = c = (  # noqa\n            b\n        ) = None\n"
    "        return (u, (d,), 'x')\n";

TEST(Plain, AGraphIsReadAsTheTreeReadsIt) {
  std::string graph(kGraph);
  EXPECT_EQ(reading(graph), Reading::kLeft) << "a comment is not plain";
  graph.erase(graph.find("  # noqa"), 8);
  EXPECT_EQ(reading(graph), Reading::kPlain);
  graph.pop_back();
  EXPECT_EQ(reading(graph), Reading::kPlain) << "no line end at the end";
  EXPECT_EQ(reading(graph + ";\n\n  \n\n"), Reading::kPlain);
  EXPECT_EQ(reading(graph + "\n\n\nclass B:\n  def f():\n   x = 1\n  def g(y,):\n   return\n\nx = B"),
            Reading::kPlain);
  EXPECT_EQ(reading(""), Reading::kPlain);
}

TEST(Plain, ExpressionsAreReadAsTheTreeReadsThem) {
  for (const char* text : {"-a + b * c - d",
                           "a - b - c",
                           "a * (b + c) % d",
                           "-a ** -b ** c * d",
                           "~a & b | c << 2 >> d",
                           "a @ b // c",
                           "a < b + 1 <= c != d",
                           "a == b",
                           "(a)",
                           "((a).b)",
                           "(a, b)",
                           "(a,)",
                           "()",
                           "[]",
                           "[1, 2,]",
                           "[(1), [a]]",
                           "a, b",
                           "a,",
                           "(a + b).c[0](d)",
                           "f()",
                           "f(a, b=c, d = (e),)",
                           "f(a)(b)",
                           "f(\n    a\n    , b\n\n     =\n    c\n    )",
                           "a[1]",
                           "a[1,]",
                           "a[(1), (b)]",
                           "a[(1, 2)]",
                           "a[1:2, ..., ::-1, None]",
                           "a[:]",
                           "a[: :]",
                           "a[b:(c)]",
                           "a[(b):c:]",
                           "1",
                           "0",
                           "1.5",
                           "1.",
                           "1e5",
                           "1.e-5",
                           "2E+3",
                           "9223372036854775808",
                           "1e400",
                           "'a'",
                           "\"it's\"",
                           "''",
                           "'{x}'.y",
                           "1 .real",
                           "True",
                           "None",
                           "...",
                           "a.type(b)",
                           "f(a, type=b, print=c)",
                           "a.match.print",
                           "a . b",
                           "- (a)",
                           "+-~a",
                           "a.b.c(d.e)(f=g)[h]",
                           "(a)(b)",
                           "[a][0]",
                           "'s'[0]",
                           "a<b",
                           "a<-b",
                           "a--b"}) {
    EXPECT_EQ(reading("x = " + std::string(text) + "\n"), Reading::kPlain) << text;
    EXPECT_EQ(reading("def f(y):\n    if_ = x.y = (\n      " + std::string(text) + " )\n    return x\n"),
              Reading::kPlain)
        << text;
  }
}

TEST(Plain, StatementsAreReadAsTheTreeReadsThem) {
  for (const char* text : {"a = b",
                           "a = b = c.d = e[0] = 1",
                           "a, b = c",
                           "a, = c",
                           "(a) = b",
                           "a = b;",
                           "a = b; c = d ;e=f",
                           "a += b",
                           "a.b -= c",
                           "a[0] *= c, d",
                           "a **= b",
                           "a //= b",
                           "a >>= b",
                           "a @= b",
                           "f(x)",
                           "f(x);g(y)",
                           "a.b(c).d(e)",
                           "return",
                           "return a",
                           "return a, b",
                           "return a,",
                           "return (a)",
                           "import a",
                           "import a.b.c as d, e",
                           "from a.b import c, d as e"}) {
    EXPECT_EQ(reading(std::string(text) + "\n"), Reading::kPlain) << text;
    EXPECT_EQ(reading("class A:\n  def f(self):\n     " + std::string(text) +
                      "\n\n  def g(self, a=(1)):\n      return 2\n"),
              Reading::kPlain)
        << text;
  }
}

// Left to the tree: what is no Python, what is not of the subset, and what the two might see differently.
TEST(Plain, OtherTextIsLeftToTheTree) {
  for (const char* text : {"x = # a\n",
                           "x = 1  # a\n",
                           "# a\n",
                           "x = \\\n1\n",
                           "x\t= 1\n",
                           "\tx = 1\n",
                           " x = 1\n",
                           "x = 1\r\n",
                           "x = '\\n'\n",
                           "x = 'a' 'b'\n",
                           "x = '''a'''\n",
                           "x = r'a'\n",
                           "x = f'a'\n",
                           "x = '\xc3\xa9'\n",
                           "\xc3\xa9 = 1\n",
                           "x = 'a\n",
                           "x = (1\n",
                           "x = 1)\n",
                           "x = [1)\n",
                           "x = 01\n",
                           "x = 0x1\n",
                           "x = 1_0\n",
                           "x = 1j\n",
                           "x = .5\n",
                           "x = 1.a\n",
                           "x = 1if\n",
                           "x = a ^ b\n",
                           "x = a if b else c\n",
                           "x = not a\n",
                           "x = a and b\n",
                           "x = a in b\n",
                           "x = a is b\n",
                           "x = lambda: a\n",
                           "x = {}\n",
                           "x = [a for a in b]\n",
                           "x = f(a for a in b)\n",
                           "x = f(*a)\n",
                           "x = f(**a)\n",
                           "x = f((a)=1)\n",
                           "x = f(a.b=1)\n",
                           "x = f(1=1)\n",
                           "x = f(type)\n",
                           "x = f(if=1)\n",
                           "x = f(,)\n",
                           "x = f(a b)\n",
                           "x = a[]\n",
                           "x = a[1:2:3:4]\n",
                           "x = (,)\n",
                           "x = (a := b)\n",
                           "x = await a\n",
                           "x = yield\n",
                           "x: int = 1\n",
                           "x = print\n",
                           "print(a)\n",
                           "print a\n",
                           "x\n",
                           "x, y\n",
                           "(f(x))\n",
                           "f(x) = 1\n",
                           "1 = x\n",
                           "None = x\n",
                           "a + b = x\n",
                           "(a, b) = x\n",
                           "[a] = x\n",
                           "*a, b = x\n",
                           "a, b += c\n",
                           "a = b += c\n",
                           "a += b = c\n",
                           "x = a.if\n",
                           "if = 1\n",
                           "x = \n",
                           "= 1\n",
                           ";\n",
                           "x = 1;;\n",
                           "del x\n",
                           "pass\n",
                           "if x:\n  y = 1\n",
                           "for x in y:\n  z = 1\n",
                           "@a\ndef f():\n  return\n",
                           "async def f():\n  return\n",
                           "def f(): return\n",
                           "def f() -> int:\n  return\n",
                           "def f(*a):\n  return\n",
                           "def f(a: 'b'):\n  return\n",
                           "def f(a: (b)):\n  return\n",
                           "def f(a: b[c]):\n  return\n",
                           "def f(a b):\n  return\n",
                           "def f():\n",
                           "def f():\nx = 1\n",
                           "def f():\n  x = 1\n   y = 2\n",
                           "def f():\n    x = 1\n  y = 2\n",
                           "def f()\n  x = 1\n",
                           "class A(metaclass=b):\n  x = 1\n",
                           "class A:\n",
                           "import\n",
                           "import a.\n",
                           "import a . b\n",
                           "from . import a\n",
                           "from a import *\n",
                           "from a import (b)\n",
                           "from a import b,\n",
                           "from __future__ import a\n",
                           "import a as b.c\n",
                           "x = 1 y = 2\n",
                           "x ~= 1\n",
                           "x = a <> b\n",
                           "return x = 1\n",
                           "def f():\n  x = (\n a)\n"}) {
    EXPECT_EQ(reading(text), Reading::kLeft) << text;
  }
  EXPECT_EQ(reading(std::string("x = 1\0\n", 7)), Reading::kLeft);
}

TEST(Plain, DepthIsLeftToTheTree) {
  for (const int n : {40, 60, 500, 100000}) {
    const Reading expected = n == 40 ? Reading::kPlain : Reading::kLeft;
    EXPECT_EQ(reading("x = " + repeated("(", n) + "a" + repeated(")", n) + "\n"), expected) << n;
    EXPECT_EQ(reading("x = " + repeated("-", n) + "a\n"), expected) << n;
    EXPECT_EQ(reading("x = " + repeated("a ** ", n) + "a\n"), expected) << n;
    EXPECT_EQ(reading("x = " + repeated("f(b=", n) + "a" + repeated(")", n) + "\n"), expected) << n;
    EXPECT_EQ(reading("x = a" + repeated(".b", 4 * n) + "\n"), expected) << n;
    EXPECT_EQ(reading("x = a" + repeated(" + b", 4 * n) + "\n"), expected) << n;
  }
  EXPECT_EQ(reading(repeated("a = ", 5000) + "b\n"), Reading::kPlain);
}

// Whatever is read plainly the tree reads too, and alike.
TEST(Plain, DamagedTextIsReadAsTheTreeReadsItOrNotAtAll) {
  std::string base(kGraph);
  base.erase(base.find("  # noqa"), 8);
  unsigned seed = 7;
  const auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 8; };
  const std::string alphabet = "()[],.:;=+-*/<>! \n01aeE'\"_|&@%~";
  int plain = 0, left = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = base;
    for (unsigned n = next() % 3 + 1; n > 0; --n) {
      const std::size_t at = next() % text.size();
      switch (next() % 4) {
        case 0: text.erase(at, next() % 5 + 1); break;
        case 1: text.insert(at, 1, alphabet[next() % alphabet.size()]); break;
        case 2: text.insert(at, text.substr(next() % text.size(), next() % 12)); break;
        default: text[at] = alphabet[next() % alphabet.size()];
      }
    }
    const Reading how = reading(text);
    ASSERT_NE(how, Reading::kDiffers) << text;
    ASSERT_NE(how, Reading::kRefusedByTree) << text;
    (how == Reading::kPlain ? plain : left)++;
  }
  EXPECT_GT(plain, 500);
  EXPECT_GT(left, 500);
}

}  // namespace
}  // namespace passnet::pysrc
