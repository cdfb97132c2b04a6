#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace passnet {

class SourceBuffer;

/// Whose fault it is. `kUser`: the input or the surroundings; the message says what to change. `kInternal`:
/// passnet broke its own promise; the text asks for a report.
enum class DiagnosticKind : std::uint8_t { kUser, kInternal };

enum class Severity : std::uint8_t { kNote, kWarning, kError };

std::string_view to_string(DiagnosticKind kind);
std::string_view to_string(Severity severity);

/// A stretch of source. Lines and columns count from 1, columns in bytes, the end is exclusive (one past the
/// last byte). 0 means not known: a span with line 0 says nothing, one with end_line 0 is a single point.
struct Span {
  int line = 0;
  int col = 0;
  int end_line = 0;
  int end_col = 0;

  bool known() const { return line > 0; }
  bool operator==(const Span&) const = default;
};

/// One finding: an error that ends an operation (the other half of Result) or one of many in a report.
/// `code` is a stable dotted name (`pysrc.syntax`); tests and programs go by it, people read the message.
/// `hint` is the remedy, one sentence that says what to do. `fields` carries further facts by name.
struct Diagnostic {
  DiagnosticKind kind = DiagnosticKind::kUser;
  Severity severity = Severity::kError;
  std::string code;
  std::string file;
  Span span;
  std::string message;
  std::string hint;
  std::map<std::string, std::string> fields;

  // For building in one expression: `return user_error("x.y", "...").at(file, span).with_hint("...");`
  Diagnostic at(std::string_view in_file, Span where = {}) &&;
  Diagnostic with_hint(std::string_view text) &&;
  Diagnostic with(std::string_view key, std::string_view value) &&;

  bool operator==(const Diagnostic&) const = default;
};

Diagnostic user_error(std::string_view code, std::string_view message);
Diagnostic user_warning(std::string_view code, std::string_view message);
Diagnostic note(std::string_view code, std::string_view message);
Diagnostic internal_error(std::string_view code, std::string_view message);

struct RenderOptions {
  int width = 100;     ///< source lines are cut to this many characters around the span
  bool color = false;  ///< ANSI colours
};

/// The text for people, ending in a newline:
///
///     model.py:12:9: error: message [code]
///       |         x = foo(y)
///       |             ^~~~~~
///       hint: ...
///
/// `source` gives the line to show; null (or a span that is not in it) leaves the excerpt out.
std::string render_text(const Diagnostic& diagnostic, const SourceBuffer* source = nullptr,
                        const RenderOptions& options = {});

/// The finding of every `--json` document: code, severity, file, line, column, message, remedy; then `fields`
/// when there are any, and `"internal": true` for our own faults. Unknown positions are null. `column` counts
/// characters when `source` is given, bytes otherwise.
Json to_json(const Diagnostic& diagnostic, const SourceBuffer* source = nullptr);

Json findings_to_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace passnet
