#include "score/record.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strings.h"
#include "score/tolerance.h"

namespace passnet::score {
namespace {

const Json& at(const Json& object, const char* key) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

std::string text(const Json& object, const char* key) {
  const Json& v = at(object, key);
  return v.is_string() ? v.get<std::string>() : std::string();
}

std::optional<double> number(const Json& object, const char* key) {
  const Json& v = at(object, key);
  if (v.is_number()) return v.get<double>();
  if (v.is_string()) return parse_double(v.get<std::string>());  // inf and nan are written as text
  return std::nullopt;
}

std::optional<bool> boolean(const Json& object, const char* key) {
  const Json& v = at(object, key);
  return v.is_boolean() ? std::optional<bool>(v.get<bool>()) : std::nullopt;
}

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> out;
  if (list.is_array())
    for (const Json& v : list)
      if (v.is_string()) out.push_back(v.get<std::string>());
  return out;
}

std::vector<double> doubles(const Json& list) {
  std::vector<double> out;
  if (list.is_array()) {
    for (const Json& v : list) {
      out.push_back(v.is_number()   ? v.get<double>()
                    : v.is_string() ? parse_double(v.get<std::string>()).value_or(NAN)
                                    : NAN);
    }
  }
  return out;
}

std::vector<int> ints(const Json& list) {
  std::vector<int> out;
  if (list.is_array())
    for (const Json& v : list) out.push_back(v.is_number() ? v.get<int>() : 0);
  return out;
}

Medians medians(const Json& side) {
  const auto us = [&](const char* key) -> std::optional<double> {
    const auto median = number(at(side, key), "median");
    return median ? std::optional<double>(*median * 1e3) : std::nullopt;
  };
  return {us("e2e"), us("gpu")};
}

void read_failure(const Json& record, Measured& m) {
  const Json& compiled = at(record, "compiled");
  const Json& eager = at(record, "eager");
  const Json* error = &at(record, "error");
  if (!error->is_object()) error = m.failed_in == "eager" ? &at(eager, "error") : &at(compiled, "error");
  if (!error->is_object()) return;
  m.message = text(*error, "message");
  m.verdict_code = text(*error, "code");
  m.exception = text(*error, "type");
}

void read_passes(const Json& record, Measured& m) {
  const Json& graphs = at(record, "graphs");
  if (!graphs.is_array()) return;
  for (const Json& graph : graphs) {
    const Json& passes = at(graph, "passes");
    if (!passes.is_array()) continue;
    for (const Json& p : passes) {
      const std::string name = text(p, "pass");
      const Json& matches = at(p, "matches");
      const int count = matches.is_array() ? static_cast<int>(matches.size()) : 0;
      PassTrace* found = nullptr;
      for (PassTrace& known : m.passes)
        if (known.name == name) found = &known;
      if (found == nullptr) found = &m.passes.emplace_back(PassTrace{name, 0, false, false, {}, {}});
      found->applied += count;
      found->failed = found->applied == 0;
    }
    if (const Json& error = at(graph, "error"); error.is_object() && !text(error, "pass").empty())
      m.passes.push_back({text(error, "pass"), 0, false, true, text(error, "message"), {}});
  }
}

}  // namespace

Result<Measured> measured_of(const Json& record) {
  if (text(record, "schema") != kRecordSchema)
    return user_error("score.record",
                      fmt::format("a record of schema '{}', not {}", text(record, "schema"), kRecordSchema))
        .with_hint("records are the lines of records.jsonl that passnet eval writes");
  Measured m;
  m.source = Measured::Source::kRecord;
  m.sample = text(record, "sample");
  m.variant = text(record, "variant");
  m.compiler = text(record, "compiler");
  m.kind = text(record, "kind");
  m.dtype = text(record, "dtype");
  m.hardware = text(record, "hardware");
  m.protocol = text(record, "protocol");
  m.isolation = text(record, "isolation");
  m.failed_in = text(record, "failed_in");
  m.result = text(record, "status");
  m.comparable = boolean(record, "comparable");
  m.eager_equals_itself = boolean(record, "eager_equals_itself");
  m.bytes = number(record, "input_bytes");
  m.seconds = number(record, "seconds");
  m.compile_seconds = number(record, "compile_seconds");
  m.memory_growth = number(record, "memory_growth");
  m.violations = texts(at(record, "violations"));
  m.kept_tensors = texts(at(record, "kept_tensors"));
  m.state_changes = texts(at(record, "state_changes"));
  m.changed_inputs = texts(at(record, "changed_inputs"));
  m.loaded_names = texts(at(record, "loaded"));
  if (at(record, "loaded").is_array()) m.loaded = static_cast<int>(m.loaded_names.size());
  if (const Json& skipped = at(record, "skipped"); skipped.is_array()) {
    for (const Json& s : skipped) {
      const std::string reason = text(s, "reason");
      (reason.starts_with("source rules") ? m.rejected : m.skipped)
          .push_back(fmt::format("{}: {}", text(s, "name"), reason));
    }
  }
  const Json& compiled = at(record, "compiled");
  const Json& eager = at(record, "eager");
  m.eager = medians(eager);
  m.compiled = medians(compiled);
  if (m.result == "success") {
    m.eager_types_seen = m.compiled_types_seen = true;
    m.eager_dtypes = texts(at(eager, "dtypes"));
    m.compiled_dtypes = texts(at(compiled, "dtypes"));
    m.types_match = boolean(record, "type_match");
    m.shapes_match = boolean(record, "shape_match");
    m.speedup_e2e = number(record, "speedup_e2e");
    m.speedup_gpu = number(record, "speedup_gpu");
    if (const auto t = number(record, "first_correct_t")) m.first_correct_t = static_cast<int>(*t);
    const Json& correctness = at(record, "correctness");
    m.equal = ints(at(correctness, "equal"));
    m.max_diff = doubles(at(correctness, "max_diff"));
    m.mean_diff = doubles(at(correctness, "mean_diff"));
    if (const Json& sweep = at(correctness, "allclose"); sweep.is_array()) {
      for (const Json& line : sweep)
        if (line.is_array() && line.size() == 2 && line[0].is_string())
          m.all_close[line[0].get<std::string>()] = ints(line[1]);
    }
    if (const Json& calls = at(record, "other_calls"); calls.is_array()) {
      for (const Json& c : calls) {
        if (at(c, "ok") == true) continue;
        m.other_calls.push_back(fmt::format("{} call {}: {}", text(c, "call"),
                                            number(c, "number").value_or(0), text(c, "reason")));
      }
    }
    if (const Json& live = at(record, "live"); live.is_object()) {
      m.live_asked = true;
      if (const auto t = number(live, "first_correct_t")) m.live_first_correct_t = static_cast<int>(*t);
    }
    m.unsteady = boolean(compiled, "unsteady");
    const Json& interval = at(record, "speedup_e2e_90");
    if (interval.is_array() && interval.size() == 2 && interval[0].is_number() && interval[1].is_number()) {
      m.low_90 = interval[0].get<double>();
      m.high_90 = interval[1].get<double>();
    }
  } else {
    read_failure(record, m);
  }
  const Json& versus = at(record, "versus");
  m.versus = text(versus, "compiler");
  m.versus_ratio = number(versus, "ratio");
  if (const std::vector<double> range = doubles(at(versus, "interval_90")); range.size() == 2) {
    m.versus_low = range[0];
    m.versus_high = range[1];
  }
  const Json& clock = at(record, at(record, "own_clock").is_object() ? "own_clock" : "parent_clock");
  const auto seen = number(clock, "seen"), claimed = number(clock, "claimed");
  // The clean parent looks after many children and may be late by the time it takes to start or bury one; the reference
  // of a strict run looks at nothing else.
  // What the reference needs beside its own calls (contents, looking at outputs) the candidate needs as well.
  const bool own = at(record, "own_clock").is_object();
  const double beside = number(clock, "beside").value_or(0);
  if (seen && claimed) {
    const double missing = *seen - *claimed - beside;
    // Interpreted kernels have bookkeeping of their own between the calls, which the reference does not have.
    const double share = m.comparable == false ? 0.9 : 0.2;
    if (own ? missing > 0.02 && missing > share * *seen : missing > 3.0 + *claimed)
      m.clock_ratio = (*claimed + beside) / *seen;
  }
  read_passes(record, m);
  return m;
}

void attach_expected(Measured& m, const Json& expected) {
  const Json& own = at(expected, m.compiler.c_str());
  const Json& found = at(own.is_object() ? own : at(expected, ""), m.variant.c_str());
  if (!found.is_object()) return;
  m.expected = expected_of(found);
  if (m.kind == "nope") m.expected.predicted = m.expected.unchanged;
}

Result<RecordFile> parse_records(std::string_view content, std::string_view file) {
  RecordFile out;
  int number = 0;
  const std::vector<std::string_view> lines = split_lines(content);
  for (const std::string_view line : lines) {
    ++number;
    if (trim(line).empty()) continue;
    auto parsed = parse_json(line, file);
    const bool is_record = parsed.ok() && text(*parsed, "schema") == kRecordSchema;
    if (!is_record) {
      if (number == static_cast<int>(lines.size()) && !content.ends_with('\n')) {
        out.torn = true;
        break;
      }
      return user_error("score.record",
                        parsed.ok() ? std::string("this line is no record") : parsed.error().message)
          .at(file, {number, 1, 0, 0})
          .with_hint("each line of records.jsonl is one JSON object of schema passnet.record/1");
    }
    out.records.push_back(std::move(*parsed));
  }
  return out;
}

namespace {

// As Python prints a float in the log: shortest digits, nan and inf in words.
std::string python_number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", v);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string joined(const Json& list) {
  std::vector<std::string> out;
  if (list.is_array())
    for (const Json& v : list) out.push_back(v.is_string() ? v.get<std::string>() : dump_json(v));
  return fmt::format("{}", fmt::join(out, " "));
}

// As Python's json.dumps writes an object of numbers and such objects.
std::string python_json(const Json& value) {
  if (value.is_number_float()) return python_number(value.get<double>());
  if (!value.is_object()) return dump_json(value);
  std::vector<std::string> parts;
  for (const auto& [key, v] : value.items()) parts.push_back(fmt::format("\"{}\": {}", key, python_json(v)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string performance(const Json& side) {
  Json out = Json::object();
  out["e2e"] = at(side, "e2e");
  if (at(side, "gpu").is_object()) out["gpu"] = at(side, "gpu");
  return python_json(out);
}

class Block {
 public:
  Block(const Json& record, const LogStyle& style) : r_(record), prompt_(style.prompt) {}

  std::string text_of() {
    prologue();
    if (text(r_, "failed_in") == "load" ||
        (text(r_, "failed_in") == "process" && text(at(r_, "error"), "phase") == "load")) {
      // The public harness dies before it prints the variant's mark; one is printed here so that the variant counts.
      marked("[Processing] {}", path());
      failed("compiled", at(r_, "error"));
      return std::move(out_);
    }
    marked("[Processing] {}", path());
    config();
    applied();
    if (text(r_, "status") != "success") {
      const bool eager = text(r_, "failed_in") == "eager";
      const Json& own = at(at(r_, eager ? "eager" : "compiled"), "error");
      failed(eager ? "eager" : "compiled", own.is_object() ? own : at(r_, "error"));
      return std::move(out_);
    }
    trials("compiled");
    trials("eager");
    outputs();
    return std::move(out_);
  }

 private:
  template <class... Args>
  void marked(fmt::format_string<Args...> format, Args&&... args) {
    out_ += prompt_ + " " + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string path() const { return text(r_, "variant"); }

  void prologue() {
    if (text(r_, "kind") != "pass_mgr") return;
    if (const Json& skipped = at(r_, "skipped"); skipped.is_array()) {
      for (const Json& s : skipped) {
        const std::string reason = text(s, "reason"), name = text(s, "name");
        if (!reason.starts_with("source rules: ")) continue;
        line("Detected hacking behavior, forbidden torch API usage in replacement_func");
        line("Pass source validation failed for {}.py:", name);
        for (const std::string_view violation : split(std::string_view(reason).substr(14), ';'))
          line("  - {}", trim(violation));
        line("Skipping loading of {}.py due to validation failures.", name);
      }
    }
    if (const Json& loaded = at(r_, "loaded"); loaded.is_array()) {
      std::vector<std::string> names;
      for (const std::string& n : texts(loaded)) names.push_back("'" + n + "'");
      line("[PassMgrBackend] Loaded {} passes: [{}]", names.size(), fmt::join(names, ", "));
    }
  }

  void config() {
    marked("[Config] model: {}", path());
    marked("[Config] device: {}", text(r_, "device"));
    marked("[Config] hardware: {}", text(r_, "hardware"));
    marked("[Config] compiler: {}", text(r_, "kind"));
    marked("[Config] warmup: {}", number(r_, "warmup").value_or(0));
    marked("[Config] trials: {}", number(r_, "trials").value_or(0));
    marked("[Config] compile_framework_version: {}", text(r_, "torch"));
  }

  void applied() {
    const Json& graphs = at(r_, "graphs");
    if (!graphs.is_array()) return;
    for (const Json& graph : graphs) {
      const Json& passes = at(graph, "passes");
      if (!passes.is_array()) continue;
      for (const Json& p : passes) {
        const Json& matches = at(p, "matches");
        if (matches.is_array() && !matches.empty())
          line("Applied {} replacements with {}.", matches.size(), text(p, "pass"));
        else
          line("Pass {} failed to match.", text(p, "pass"));
      }
      if (const Json& error = at(graph, "error"); error.is_object())
        line("Pass {} CRASHED with error: {}", text(error, "pass"), one_line(text(error, "message")));
    }
  }

  static std::string one_line(std::string_view s) {
    std::string out;
    for (const char c : s) out += c == '\n' || c == '\r' ? ' ' : c;
    return out;
  }

  void failed(std::string_view side, const Json& error) {
    line("{} model execution failed: {}", side == "eager" ? "Eager" : "Compiled",
         one_line(text(error, "message")));
    const std::string trace = text(error, "traceback");
    line("--- Full Traceback ---");
    if (!trace.empty()) out_ += trace + (trace.ends_with('\n') ? "" : "\n");
    const std::string type = text(error, "type");
    line("debug-model-execution {} {}", type.empty() ? "RuntimeError" : type, path());
    marked("[Result] status: failed");
    marked("[Fail due to {} model execution error.]", side);
  }

  void trials(const char* side) {
    const Json& s = at(r_, side);
    const auto e2e = doubles(at(s, "e2e_ms")), gpu = doubles(at(s, "gpu_ms"));
    line("[Profiling] Using device: {} {}, warm up {}, trials {}", text(r_, "device"), text(r_, "hardware"),
         number(r_, "warmup").value_or(0), number(r_, "trials").value_or(0));
    for (size_t i = 0; i < e2e.size(); ++i) {
      if (i < gpu.size())
        line("Trial {}: e2e={:.5f} ms, gpu={:.5f} ms", i + 1, e2e[i], gpu[i]);
      else
        line("Trial {}: e2e={:.5f} ms", i + 1, e2e[i]);
    }
  }

  void outputs() {
    const Json& eager = at(r_, "eager");
    const Json& compiled = at(r_, "compiled");
    marked("[Datatype][eager]: {}", joined(at(eager, "dtypes")));
    marked("[Datatype][compiled]: {}", joined(at(compiled, "dtypes")));
    const auto list = [](const Json& dtypes) {
      std::vector<std::string> out;
      for (const std::string& d : texts(dtypes)) out.push_back("'" + d + "'");
      return fmt::format("[{}]", fmt::join(out, ", "));
    };
    const bool types = boolean(r_, "type_match").value_or(false);
    marked("[DataType] eager:{} compiled:{} match:{}", list(at(eager, "dtypes")),
           list(at(compiled, "dtypes")), types ? "True" : "False");
    if (const Json& c = at(r_, "correctness"); types && c.is_object()) {
      marked("[Correctness][equal]: {}", joined(at(c, "equal")));
      if (const Json& sweep = at(c, "allclose"); sweep.is_array()) {
        for (const Json& entry : sweep)
          marked("[Correctness][{}]: {}", entry[0].get<std::string>(), joined(entry[1]));
      }
      std::vector<std::string> max, mean;
      for (const double d : doubles(at(c, "max_diff"))) max.push_back(python_number(d));
      for (const double d : doubles(at(c, "mean_diff"))) mean.push_back(python_number(d));
      marked("[Correctness][max_diff]: {}", fmt::join(max, " "));
      marked("[Correctness][mean_diff]: {}", fmt::join(mean, " "));
    }
    marked("[Result] status: success");
    marked("[Performance][eager]: {}", performance(eager));
    marked("[Performance][compiled]: {}", performance(compiled));
    if (const auto s = number(r_, "speedup_e2e")) marked("[Speedup][e2e]: {:.5f}", *s);
    if (const auto s = number(r_, "speedup_gpu")) marked("[Speedup][gpu]: {:.5f}", *s);
  }

  const Json& r_;
  std::string prompt_, out_;
};

}  // namespace

std::string public_log_block(const Json& record, const LogStyle& style) {
  return Block(record, style).text_of();
}

}  // namespace passnet::score
