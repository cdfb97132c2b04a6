#include "pysrc/tree.h"

#include <tree_sitter/api.h>

#include <algorithm>
#include <ctime>
#include <string>

#include <fmt/format.h>

extern "C" const TSLanguage* tree_sitter_python(void);

namespace passnet::pysrc {

namespace {

// Repairs of a damaged file can take minutes; a sound file takes some 50 nanoseconds a byte, one chain of attributes
// two megabytes long 300. In time of this thread's processor, so that a busy machine refuses nothing. A file is read or
// refused within two seconds, whatever it is: giving the tree back takes a part of them.
constexpr double kParseSeconds = 1.0;
constexpr double kParseSecondsPerByte = 3e-7;
constexpr double kMostParseSeconds = 1.4;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Deadline {
  double end;
};

bool past_deadline(TSParseState* state) {
  return thread_seconds() > static_cast<Deadline*>(state->payload)->end;
}

struct Input {
  std::string_view text;
};

const char* read_input(void* payload, uint32_t offset, TSPoint, uint32_t* length) {
  // In pieces, since the parser looks at the deadline between them only.
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  const std::string_view text = static_cast<Input*>(payload)->text;
  if (offset >= text.size()) {
    *length = 0;
    return "";
  }
  *length = static_cast<uint32_t>(std::min(kPiece, text.size() - offset));
  return text.data() + offset;
}

Span span_of(TSNode node) {
  const TSPoint a = ts_node_start_point(node);
  const TSPoint b = ts_node_end_point(node);
  return {static_cast<int>(a.row) + 1, static_cast<int>(a.column) + 1, static_cast<int>(b.row) + 1,
          static_cast<int>(b.column) + 1};
}

// The first ERROR or MISSING node in source order. Some are hidden (a missing line end): then the innermost node that
// holds one.
TSNode first_error(TSNode root) {
  TSTreeCursor cursor = ts_tree_cursor_new(root);
  TSNode found = root;
  for (;;) {
    const TSNode node = ts_tree_cursor_current_node(&cursor);
    if (ts_node_is_missing(node) || ts_node_is_error(node)) {
      found = node;
      break;
    }
    if (ts_node_has_error(node)) {
      found = node;
      if (ts_tree_cursor_goto_first_child(&cursor)) continue;
    }
    bool moved = ts_tree_cursor_goto_next_sibling(&cursor);
    while (!moved && ts_tree_cursor_goto_parent(&cursor)) moved = ts_tree_cursor_goto_next_sibling(&cursor);
    if (!moved) break;
  }
  ts_tree_cursor_delete(&cursor);
  return found;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) {
    if (out.size() >= 40) return out + "...";
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return out;
}

Diagnostic syntax_error(const SourceBuffer& source, TSNode node) {
  Span span = span_of(node);
  std::string message;
  if (ts_node_is_missing(node)) {
    message = "'" + std::string(ts_node_type(node)) + "' is missing here";
    span.end_line = 0;
    span.end_col = 0;
  } else if (!ts_node_is_error(node)) {
    message = "this is not valid Python";
    span.end_line = 0;
    span.end_col = 0;
  } else {
    // The error node may begin long before the token that does not fit; its last child is that token.
    const uint32_t count = ts_node_child_count(node);
    if (count > 0) {
      const TSNode last = ts_node_child(node, count - 1);
      if (!ts_node_is_null(last) && ts_node_end_byte(last) > ts_node_start_byte(last)) span = span_of(last);
    }
    const std::string text = printable(source.slice(span));
    message = text.empty() ? "this is not valid Python" : "this is not valid Python, at '" + text + "'";
    if (span.end_line > span.line) {
      span.end_line = 0;
      span.end_col = 0;
    }
  }
  return user_error("pysrc.syntax", message)
      .at(source.name(), span)
      .with_hint("Correct the syntax; `python -m py_compile` on the file shows how Python itself reads it.");
}

}  // namespace

void SyntaxTree::Free::operator()(TSTree* tree) const { ts_tree_delete(tree); }

Result<SyntaxTree> SyntaxTree::parse(std::shared_ptr<const SourceBuffer> source) {
  if (source->text().size() > kMaxSourceBytes) {
    return user_error("pysrc.too_large", "the file has " + std::to_string(source->text().size()) +
                                             " bytes; at most " + std::to_string(kMaxSourceBytes) +
                                             " are read")
        .at(source->name())
        .with_hint("A Python source this large is no graph; check what the file is.");
  }
  TSParser* parser = ts_parser_new();
  ts_parser_set_language(parser, tree_sitter_python());
  Input input{source->text()};
  const double allowed = std::min(
      kMostParseSeconds, kParseSeconds + kParseSecondsPerByte * static_cast<double>(source->text().size()));
  Deadline deadline{thread_seconds() + allowed};
  TSTree* tree = ts_parser_parse_with_options(
      parser, nullptr, {&input, read_input, TSInputEncodingUTF8, nullptr}, {&deadline, past_deadline});
  ts_parser_delete(parser);
  if (tree == nullptr) {
    return user_error("pysrc.timeout", fmt::format("parsing took longer than {:.1f} s", allowed))
        .at(source->name())
        .with_hint("The file is damaged or no Python source; replace it.");
  }
  SyntaxTree out(std::move(source), tree);
  const TSNode root = ts_tree_root_node(tree);
  if (ts_node_has_error(root)) return syntax_error(*out.source_, first_error(root));
  return out;
}

}  // namespace passnet::pysrc
