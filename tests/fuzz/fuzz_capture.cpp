// Feeds damaged model.py and weight_meta.py to capture for a while: whatever they hold, the answer is graphs that verify, or a
// diagnostic with a code, within two seconds; and a model.py that is read without the syntax tree is read as the tree reads it.
//
//   fuzz_capture SEEDS FAILURES [SECONDS [SEED]]
//
// SEEDS: a folder; every variant below it (model.py beside weight_meta.py) is damaged. An input that fails is kept below FAILURES, the one
// at work always as FAILURES/current, so that it is there when the program dies. The seed is printed; without
// SEED it is the time's. SECONDS: 30.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "pysrc/module_dump.h"
#include "pysrc/parse.h"
#include "pysrc/plain.h"
#include "sample/sample.h"

namespace passnet {
namespace {

namespace fs = std::filesystem;

constexpr double kSlow = 2.0;    // seconds of processor time for one input
constexpr double kHangs = 60.0;  // seconds of wall time

struct Input {
  std::string model, meta;
};

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Constructs that the seeds may lack.
const Input kOwn = {
    "import torch\nfrom torch import device, inf\nimport torch.nn.functional as F\n\n\nclass "
    "GraphModule(torch.nn.Module):\n"
    "    def forward(self, a: torch.Tensor, b, n, k):\n"
    "        t = a;  u = t.view(2, -1, b.shape[0])[..., 1:];  t = None\n"
    "        u += 1.5\n"
    "        d, e = torch.functional.split(b, [2, 6], dim=1)\n"
    "        b[:, 0] = d[:, 0] * (3 // 2)\n"
    "        f = torch.cat([d, e], dim=1).permute(0, 2, 1)\n"
    "        g = torch.einsum('bij,bkj->bik', a, b)\n"
    "        h = F.pad(g, (0, 1), 'constant', -inf)\n"
    "        for i in range(3):\n"
    "            h = h * i if i > 1 else h + i ** 2\n"
    "        m = k != 0\n"
    "        j = k[m]\n"
    "        i = n.item()\n"
    "        c = torch.arange(i, device=device(type='cpu'))\n"
    "        if a.dim() == 3 and not False:\n"
    "            f = f.to(torch.float16, copy=True).softmax(-1)\n"
    "        w = torch.nn.functional.scaled_dot_product_attention(a, a, a, dropout_p=0.0, is_causal=True)\n"
    "        x = a.max(1).values.unsqueeze(0).expand(3, -1, -1)\n"
    "        return (u, f, (d, a), {'h': h}, [w, x], c, j)\n",
    "class Meta_a:\n    name = 'a'\n    shape = [2, 8, 4]\n    dtype = 'torch.float32'\n    device = "
    "'cuda:0'\n    mean = 0.1\n    std = 0.5\n"
    "    data = None\n\n\nclass Meta_b:\n    name = 'b'\n    shape = [2, 8, 4]\n    dtype = "
    "'torch.float32'\n    mean = None\n    std = None\n\n\n"
    "class Meta_n:\n    name = 'n'\n    shape = []\n    dtype = 'torch.int64'\n    data = [3]\n    mean = "
    "None\n    std = None\n\n\n"
    "class Meta_k:\n    name = 'k'\n    shape = [4]\n    dtype = 'torch.int64'\n    data = [0, 2, -1, 0]\n   "
    " mean = None\n    std = None\n"};

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void apply(std::string& text, const std::string& other) {
    switch (below(12)) {
      case 0: text.resize(below(text.size() + 1)); break;
      case 1: lines(text); break;
      case 2: arity(text); break;
      case 3: nest(text); break;
      case 4: replace_token(text, huge()); break;
      case 5: bytes(text); break;
      case 6: text.insert(below(text.size() + 1), splice(other)); break;
      case 7: replace_token(text, value()); break;
      case 8: replace_token(text, token(text)); break;
      case 9: replace_token(text, token(other)); break;
      case 10: text.erase(below(text.size() + 1), below(40)); break;
      default: characters(text);
    }
    if (text.size() > kLongest) text.resize(kLongest);
  }

 private:
  static constexpr std::size_t kLongest = std::size_t{1} << 21;

  const char* one_of(std::initializer_list<const char*> all) { return *(all.begin() + below(all.size())); }

  std::string repeated(std::string_view what, std::size_t n) {
    std::string out;
    out.reserve(what.size() * n);
    while (n-- > 0) out += what;
    return out;
  }

  // The place of a word: letters, digits, underscores and dots.
  std::pair<std::size_t, std::size_t> word(const std::string& text) {
    const auto part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    std::size_t at = below(text.size());
    while (at < text.size() && !part(text[at])) ++at;
    std::size_t begin = at, end = at;
    while (begin > 0 && part(text[begin - 1])) --begin;
    while (end < text.size() && part(text[end])) ++end;
    return {begin, end - begin};
  }

  std::string token(const std::string& text) {
    const auto [begin, length] = word(text);
    return text.substr(begin, length);
  }

  void replace_token(std::string& text, const std::string& by) {
    const auto [begin, length] = word(text);
    text.replace(begin, length, by);
  }

  void lines(std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    if (all.empty()) return;
    for (std::size_t n = below(4) + 1; n > 0; --n) {
      const std::size_t a = below(all.size()), b = below(all.size());
      switch (below(4)) {
        case 0: std::swap(all[a], all[b]); break;
        case 1: all.insert(all.begin() + static_cast<std::ptrdiff_t>(a), all[b]); break;
        case 2: all[a] = repeated(" ", below(30)) + all[a]; break;
        default:
          if (all.size() > 1) all.erase(all.begin() + static_cast<std::ptrdiff_t>(a));
      }
    }
    text.clear();
    for (const std::string& line : all) text += line + '\n';
  }

  void arity(std::string& text) {
    const std::size_t comma = text.find(',', below(text.size() + 1));
    if (comma == std::string::npos) return;
    if (below(2) == 0) {
      text.insert(comma, one_of({", 3", ", None", ", *a", ", **{'k': 1}", ", x=1", ", dim=-1", ", (1, 2)",
                                 ", a", ","}));
    } else {
      const std::size_t end = text.find_first_of(",)", comma + 1);
      if (end != std::string::npos) text.erase(comma, end - comma);
    }
  }

  void nest(std::string& text) {
    constexpr std::size_t kDepths[] = {3, 40, 300, 2000, 50000};
    const std::size_t n = kDepths[below(5)];
    const auto [begin, length] = word(text);
    const std::string inner = text.substr(begin, length);
    std::string nested;
    switch (below(8)) {
      case 0: nested = repeated("(", n) + inner + repeated(")", n); break;
      case 1: nested = repeated("[", n) + inner + repeated("]", n); break;
      case 2: nested = repeated("-", n) + inner; break;
      case 3: nested = repeated("not ", n) + inner; break;
      case 4: nested = inner + repeated("[0]", n); break;
      case 5: nested = inner + repeated(" + " + inner, n); break;
      case 6: nested = repeated("torch.neg(", n) + inner + repeated(")", n); break;
      default: nested = inner + repeated(".T", n);
    }
    text.replace(begin, length, nested);
  }

  std::string huge() {
    constexpr std::size_t kLengths[] = {18, 19, 20, 40, 400, 5000, 200000};
    const std::size_t n = kLengths[below(7)];
    switch (below(6)) {
      case 0: return repeated("9", n);
      case 1: return "-" + repeated("9", n);
      case 2: return "0x" + repeated("f", n);
      case 3: return "1e" + repeated("9", std::min<std::size_t>(n, 400));
      case 4: return "1." + repeated("0", n) + "1";
      default: return "'" + repeated("s", n) + "'";
    }
  }

  std::string value() {
    return one_of({"0",
                   "-1",
                   "1",
                   "9223372036854775807",
                   "-9223372036854775808",
                   "4611686018427387904",
                   "1000000007",
                   "None",
                   "True",
                   "1.5",
                   "1e400",
                   "float('nan')",
                   "inf",
                   "()",
                   "[]",
                   "[1, 2]",
                   "{}",
                   "...",
                   "slice(None)",
                   "slice(0, n, -1)",
                   "a",
                   "b",
                   "self",
                   "k",
                   "n",
                   "torch",
                   "torch.float16",
                   "torch.int8",
                   "torch.channels_last",
                   "'same'",
                   "-0.0",
                   "3j",
                   "lambda: 0",
                   "[x for x in a]",
                   "a.shape",
                   "a.size(0)",
                   "n.item()",
                   "k[k > 0]",
                   "range(100000)",
                   "range(10**12)",
                   "1 << 62",
                   "2 ** 5000",
                   "(1, ) * 1000000",
                   "a @ b",
                   "a == b",
                   "a is None",
                   "1 if a else 2",
                   "f'{a}'",
                   "yield",
                   "b''",
                   "\\",
                   ";"});
  }

  std::string splice(const std::string& other) {
    const std::size_t from = below(other.size() + 1);
    return other.substr(from, below(300));
  }

  void bytes(std::string& text) {
    const std::string odd =
        one_of({"\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xef\xbb\xbf", "\r", "\x0c",
                "\xe2\x80\xa8", "\x1a", "\xc2\xa0", "\xce\xbb", "\t", "#", "\\\n", "\"\"\"", "'"});
    text.insert(below(text.size() + 1), below(8) == 0 ? std::string(1, '\0') : odd);
  }

  void characters(std::string& text) {
    constexpr std::string_view kAlphabet = "()[]{}:,.=+-*/%@&|^~<>!'\"\\ \n\tabnk0123456789_;#";
    for (std::size_t n = below(4) + 1; n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      if (below(2) == 0) {
        text[at] = kAlphabet[below(kAlphabet.size())];
      } else {
        text.insert(at, 1, kAlphabet[below(kAlphabet.size())]);
      }
    }
  }

  std::mt19937 random_;
};

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void keep(const fs::path& folder, const Input& input) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  std::ofstream(folder / "model.py", std::ios::binary) << input.model;
  std::ofstream(folder / "weight_meta.py", std::ios::binary) << input.meta;
}

// Whether a text that is read without the tree is read otherwise than by it; empty if not. What takes the tree too long it may
// refuse.
std::string compare_readings(const std::string& text) {
  Result<SourceBuffer> checked = SourceBuffer::checked("model.py", text);
  if (!checked) return {};
  const auto source = std::make_shared<const SourceBuffer>(std::move(checked).value());
  const std::optional<pysrc::Module> plain = pysrc::read_plain_module(source);
  if (!plain) return {};
  const Result<pysrc::SyntaxTree> tree = pysrc::SyntaxTree::parse(source);
  if (!tree)
    return tree.error().code == "pysrc.timeout" ? ""
                                                : "read plainly, but the tree says " + tree.error().message;
  const Result<pysrc::Module> module = pysrc::to_module(*tree);
  if (!module) return "read plainly, but of the tree " + module.error().message;
  if (pysrc::ModuleDump::of(*plain) != pysrc::ModuleDump::of(*module))
    return "read plainly otherwise than by the tree";
  return {};
}

// What is wrong with the answer to one input; empty if nothing.
std::string judge(const Input& input, std::map<std::string, int>& codes) {
  MemoryFiles files({{"/v/model.py", input.model}, {"/v/weight_meta.py", input.meta}});
  const auto coded = [&](const Diagnostic& d) -> std::string {
    ++codes[d.code];
    if (d.code.empty() || d.message.empty()) return "a diagnostic without code or message";
    if (d.kind == DiagnosticKind::kInternal) return "an internal error: " + d.code + ": " + d.message;
    return {};
  };
  const Result<Captured> captured = capture_variant(files, "/v");
  if (!captured) return coded(captured.error());
  ++codes["(captured)"];
  for (const Diagnostic& d : captured->findings) {
    if (std::string wrong = coded(d); !wrong.empty()) return wrong;
  }
  for (const Graph& graph : captured->graphs) {
    for (const Diagnostic& d : verify(graph)) return "a graph that is not well-formed: " + d.message;
  }
  return {};
}

int run(const fs::path& seeds, const fs::path& failures, double seconds, unsigned seed) {
  std::vector<Input> inputs = {kOwn};
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(seeds, ignored)) {
    if (entry.path().filename() != "model.py") continue;
    inputs.push_back({slurp(entry.path()), slurp(entry.path().parent_path() / "weight_meta.py")});
  }
  std::cout << inputs.size() << " seeds, " << seconds << " s, seed " << seed << std::endl;
  std::atomic<std::int64_t> working{0}, started{0};
  std::atomic<bool> done{false};
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  std::thread watchdog([&] {
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const std::int64_t since = started;
      if (since != 0 && static_cast<double>(now() - since) > kHangs * 1e3) {
        std::cout << "input " << working << " hangs: see current/" << std::endl;
        std::_Exit(1);
      }
    }
  });
  Damage damage(seed);
  std::map<std::string, int> codes;
  std::int64_t count = 0, bad = 0;
  double slowest = 0;
  const std::int64_t end = now() + static_cast<std::int64_t>(seconds * 1e3);
  while (now() < end && bad < 20) {
    Input input = inputs[damage.below(inputs.size())];
    const Input& other = inputs[damage.below(inputs.size())];
    for (std::size_t n = damage.below(3) + 1; n > 0; --n) {
      if (damage.below(3) == 0) {
        damage.apply(input.meta, other.meta);
      } else {
        damage.apply(input.model, other.model);
      }
    }
    working = ++count;
    keep(failures / "current", input);
    started = now();
    const double before = processor_seconds();
    std::string wrong = judge(input, codes);
    const double took = processor_seconds() - before;
    started = 0;
    slowest = std::max(slowest, took);
    if (wrong.empty()) wrong = compare_readings(input.model);
    if (wrong.empty() && took > kSlow) wrong = "takes " + std::to_string(took) + " s";
    if (!wrong.empty()) {
      ++bad;
      keep(failures / std::to_string(seed) / std::to_string(count), input);
      std::cout << "input " << count << ": " << wrong << std::endl;
    }
  }
  done = true;
  watchdog.join();
  for (const auto& [code, n] : codes) std::cout << "  " << n << ' ' << code << '\n';
  std::cout << count << " inputs, " << bad << " bad, slowest " << slowest << " s" << std::endl;
  // A run in which nothing was damaged, or everything, would show nothing.
  const bool varied = codes["(captured)"] > 0 && codes.size() > 5;
  return bad == 0 && varied ? 0 : 1;
}

}  // namespace
}  // namespace passnet

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: fuzz_capture SEEDS FAILURES [SECONDS [SEED]]\n";
    return 2;
  }
  const double seconds = argc > 3 ? std::atof(argv[3]) : 30;
  const unsigned seed = argc > 4 ? static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10))
                                 : static_cast<unsigned>(std::time(nullptr));
  return passnet::run(argv[1], argv[2], seconds, seed);
}
