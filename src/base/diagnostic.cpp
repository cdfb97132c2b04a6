#include "base/diagnostic.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/result.h"
#include "base/source.h"

namespace passnet {

namespace {

constexpr int kMinExcerpt = 20;

Diagnostic make(DiagnosticKind kind, Severity severity, std::string_view code, std::string_view message) {
  Diagnostic diagnostic;
  diagnostic.kind = kind;
  diagnostic.severity = severity;
  diagnostic.code = code;
  diagnostic.message = message;
  return diagnostic;
}

/// The columns of one source line, in characters: what is shown and where the caret goes.
struct Excerpt {
  std::string text;
  std::size_t caret = 0;
  std::size_t length = 1;
};

/// Splits into code points, a tab as one space so that the caret stays below its text.
std::vector<std::string> characters(std::string_view line) {
  std::vector<std::string> out;
  std::size_t i = 0;
  while (i < line.size()) {
    std::size_t end = i + 1;
    while (end < line.size() && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) ++end;
    const std::string_view one = line.substr(i, end - i);
    const bool control = one.size() == 1 && static_cast<unsigned char>(one[0]) < 0x20;
    out.push_back(control ? " " : std::string(one));
    i = end;
  }
  return out;
}

Excerpt excerpt_of(std::string_view line, const Span& span, int width) {
  const auto clamp_column = [&](int col) {
    return std::min(line.size(), static_cast<std::size_t>(std::max(col, 1) - 1));
  };
  const std::size_t begin_byte = clamp_column(span.col);
  std::size_t end_byte = begin_byte;
  if (span.end_line == span.line && span.end_col > span.col) end_byte = clamp_column(span.end_col);
  if (span.end_line > span.line) end_byte = line.size();

  const auto chars = characters(line);
  const std::size_t begin = utf8_length(line.substr(0, begin_byte));
  const std::size_t length =
      std::max<std::size_t>(1, utf8_length(line.substr(begin_byte, end_byte - begin_byte)));

  const auto room = static_cast<std::size_t>(std::max(width, kMinExcerpt));
  std::size_t from = 0;
  std::size_t to = chars.size();
  if (chars.size() > room) {
    // A third of the room stays before the caret, so that what leads up to it can be read.
    from = begin > room / 3 ? begin - room / 3 : 0;
    to = std::min(chars.size(), from + room);
    from = to > room ? std::min(from, to - room) : 0;
  }
  Excerpt out;
  if (from > 0) out.text += "...";
  out.caret = out.text.size() + (begin - from);
  for (std::size_t i = from; i < to; ++i) out.text += chars[i];
  out.length = std::min(length, std::max<std::size_t>(1, to - std::min(to, begin)));
  if (to < chars.size()) out.text += "...";
  while (!out.text.empty() && out.text.back() == ' ') out.text.pop_back();
  return out;
}

std::string_view color_of(Severity severity) {
  switch (severity) {
    case Severity::kError: return "\x1b[1;31m";
    case Severity::kWarning: return "\x1b[1;33m";
    case Severity::kNote: return "\x1b[1;36m";
  }
  return "";
}

}  // namespace

namespace detail {

void result_misuse(const Diagnostic* error) {
  if (error != nullptr) {
    std::fputs("passnet: the value of a failed result was taken; the failure:\n", stderr);
    std::fputs(render_text(*error).c_str(), stderr);
  } else {
    std::fputs("passnet: the error of a successful result was taken\n", stderr);
  }
  std::abort();
}

}  // namespace detail

std::string_view to_string(DiagnosticKind kind) {
  return kind == DiagnosticKind::kUser ? "user" : "internal";
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "error";
}

Diagnostic Diagnostic::at(std::string_view in_file, Span where) && {
  file = in_file;
  span = where;
  return std::move(*this);
}

Diagnostic Diagnostic::with_hint(std::string_view text) && {
  hint = text;
  return std::move(*this);
}

Diagnostic Diagnostic::with(std::string_view key, std::string_view value) && {
  fields[std::string(key)] = value;
  return std::move(*this);
}

Diagnostic user_error(std::string_view code, std::string_view message) {
  return make(DiagnosticKind::kUser, Severity::kError, code, message);
}

Diagnostic user_warning(std::string_view code, std::string_view message) {
  return make(DiagnosticKind::kUser, Severity::kWarning, code, message);
}

Diagnostic note(std::string_view code, std::string_view message) {
  return make(DiagnosticKind::kUser, Severity::kNote, code, message);
}

Diagnostic internal_error(std::string_view code, std::string_view message) {
  return make(DiagnosticKind::kInternal, Severity::kError, code, message);
}

std::string render_text(const Diagnostic& diagnostic, const SourceBuffer* source,
                        const RenderOptions& options) {
  const std::string_view on = options.color ? color_of(diagnostic.severity) : "";
  const std::string_view off = options.color ? "\x1b[0m" : "";
  std::string out;
  if (!diagnostic.file.empty()) {
    out += diagnostic.file;
    if (diagnostic.span.known()) {
      out += fmt::format(":{}", diagnostic.span.line);
      if (diagnostic.span.col > 0) out += fmt::format(":{}", diagnostic.span.col);
    }
    out += ": ";
  }
  const std::string_view what =
      diagnostic.kind == DiagnosticKind::kInternal ? "internal error" : to_string(diagnostic.severity);
  out += fmt::format("{}{}:{} {}", on, what, off, diagnostic.message);
  if (!diagnostic.code.empty()) out += fmt::format(" [{}]", diagnostic.code);
  out += '\n';

  const Span& span = diagnostic.span;
  if (source != nullptr && span.known() && span.line <= source->line_count()) {
    const Excerpt excerpt = excerpt_of(source->line(span.line), span, options.width);
    if (!excerpt.text.empty()) {
      out += fmt::format("  | {}\n", excerpt.text);
      if (span.col > 0) {
        out += fmt::format("  | {}{}^{}{}\n", std::string(excerpt.caret, ' '), on,
                           std::string(excerpt.length - 1, '~'), off);
      }
    }
  }
  if (!diagnostic.hint.empty()) out += fmt::format("  hint: {}\n", diagnostic.hint);
  if (diagnostic.kind == DiagnosticKind::kInternal) {
    for (const auto& [key, value] : diagnostic.fields) out += fmt::format("  {}: {}\n", key, value);
    out +=
        "  This is a fault of passnet, not of your input. Please report it with this text and the input.\n";
  }
  return out;
}

Json to_json(const Diagnostic& diagnostic, const SourceBuffer* source) {
  const Span& span = diagnostic.span;
  Json out = Json::object();
  out["code"] = diagnostic.code;
  out["severity"] = to_string(diagnostic.severity);
  out["file"] = diagnostic.file.empty() ? Json(nullptr) : Json(diagnostic.file);
  out["line"] = span.known() ? Json(span.line) : Json(nullptr);
  Json column(nullptr);
  if (span.known() && span.col > 0) {
    column = span.col;
    if (source != nullptr && span.line <= source->line_count()) {
      const std::string_view line = source->line(span.line);
      const std::size_t bytes = std::min(line.size(), static_cast<std::size_t>(span.col - 1));
      column = utf8_length(line.substr(0, bytes)) + 1;
    }
  }
  out["column"] = std::move(column);
  out["message"] = diagnostic.message;
  out["remedy"] = diagnostic.hint.empty() ? Json(nullptr) : Json(diagnostic.hint);
  if (!diagnostic.fields.empty()) {
    Json fields = Json::object();
    for (const auto& [key, value] : diagnostic.fields) fields[key] = value;
    out["fields"] = std::move(fields);
  }
  if (diagnostic.kind == DiagnosticKind::kInternal) out["internal"] = true;
  return out;
}

Json findings_to_json(const std::vector<Diagnostic>& diagnostics) {
  Json out = Json::array();
  for (const auto& diagnostic : diagnostics) out.push_back(to_json(diagnostic));
  return out;
}

}  // namespace passnet
