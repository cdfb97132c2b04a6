#include "score/log.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "base/strings.h"

namespace passnet::score {
namespace {

// The text behind a mark, wherever in the line it stands; nullopt without the mark.
std::optional<std::string_view> after(std::string_view line, std::string_view mark) {
  const size_t at = line.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  return trim(line.substr(at + mark.size()));
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, ' ')) {
    const std::string_view word = trim(part);
    if (!word.empty()) out.emplace_back(word);
  }
  return out;
}

std::vector<int> flags(std::string_view text) {
  std::vector<int> out;
  for (const std::string& word : words(text)) out.push_back(word == "1" || word == "True" ? 1 : 0);
  return out;
}

std::vector<double> numbers(std::string_view text) {
  std::vector<double> out;
  for (const std::string& word : words(text)) out.push_back(parse_double(word).value_or(NAN));
  return out;
}

// "torch.float32" and "float32" are one dtype.
std::vector<std::string> dtypes(std::string_view text) {
  std::vector<std::string> out = words(text);
  for (std::string& word : out)
    if (word.starts_with("torch.")) word.erase(0, 6);
  return out;
}

std::string dtype_in(std::string_view path) {
  const std::string whole = std::string(path) + "/";
  for (const std::string_view name : {"bfloat16", "float16", "float32", "float64"}) {
    if (whole.find(fmt::format("/{}/", name)) != std::string::npos ||
        whole.starts_with(fmt::format("{}/", name)))
      return std::string(name);
  }
  return "";
}

Medians medians_of(std::string_view json) {
  Medians out;
  const size_t begin = json.find('{'), end = json.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return out;
  const auto parsed = parse_json(json.substr(begin, end - begin + 1));
  if (!parsed.ok() || !parsed->is_object()) return out;
  const auto median = [&](const char* side) -> std::optional<double> {
    const auto it = parsed->find(side);
    if (it == parsed->end() || !it->is_object() || !it->contains("median") || !(*it)["median"].is_number())
      return std::nullopt;
    return (*it)["median"].get<double>() * 1e3;
  };
  out.e2e_us = median("e2e");
  out.gpu_us = median("gpu");
  return out;
}

// "Applied 3 replacements with A." -> (3, "A")
std::optional<std::pair<int, std::string>> applied(std::string_view line) {
  const auto rest = after(line, "Applied ");
  if (!rest) return std::nullopt;
  const size_t with = rest->find(" replacements with ");
  if (with == std::string_view::npos) return std::nullopt;
  const auto count = parse_int(rest->substr(0, with));
  if (!count) return std::nullopt;
  std::string name(trim(rest->substr(with + 19)));
  if (name.ends_with(".")) name.pop_back();
  return std::pair{static_cast<int>(*count), name};
}

class Parser {
 public:
  ParsedLog parse(std::string_view text) {
    for (const std::string_view line : split_lines(text)) take(line);
    finish();
    for (Measured& m : out_.variants) close(m);
    const bool swept = std::any_of(out_.variants.begin(), out_.variants.end(),
                                   [](const Measured& m) { return m.has_all_close(); });
    const bool ran = std::any_of(out_.variants.begin(), out_.variants.end(), [](const Measured& m) {
      return m.eager_types_seen && m.compiled_types_seen && m.types_match != false;
    });
    out_.facts.filtered = ran && !swept;
    if (out_.facts.filtered)
      for (Measured& m : out_.variants) m.source = Measured::Source::kFilteredLog;
    return std::move(out_);
  }

 private:
  // What is printed while the passes load comes before the variant's own mark.
  struct Prologue {
    std::optional<int> loaded;
    std::vector<std::string> names, rejected;
    bool hacking = false;
    std::string file;
  };

  Measured* current() { return out_.variants.empty() ? nullptr : &out_.variants.back(); }

  void take(std::string_view line) {
    if (prologue(line)) return;
    if (const auto path = after(line, "[Processing]")) {
      finish();
      Measured m;
      m.variant = std::string(*path);
      m.dtype = dtype_in(*path);
      m.loaded = pending_.loaded;
      m.loaded_names = pending_.names;
      m.rejected = pending_.rejected;
      m.hacking_line = pending_.hacking;
      pending_ = {};
      out_.variants.push_back(std::move(m));
      return;
    }
    whole(line);
    if (Measured* m = current()) of_variant(*m, line);
  }

  bool prologue(std::string_view line) {
    if (const auto rest = after(line, "[PassMgrBackend] Loaded ")) {
      pending_.loaded = static_cast<int>(parse_int(rest->substr(0, rest->find(' '))).value_or(0));
      const size_t open = rest->find('['), shut = rest->rfind(']');
      pending_.names.clear();
      if (open != std::string_view::npos && shut != std::string_view::npos && shut > open) {
        for (std::string_view name : split(rest->substr(open + 1, shut - open - 1), ',')) {
          name = trim(name);
          if (name.size() >= 2) pending_.names.emplace_back(name.substr(1, name.size() - 2));
        }
      }
      return true;
    }
    if (line.find("Detected hacking behavior") != std::string_view::npos) {
      pending_.hacking = true;
      out_.facts.hints.push_back("source rules left a file out");
      return true;
    }
    if (const auto path = after(line, "Pass source validation failed for ")) {
      pending_.file = std::string(base_of(*path));
      return true;
    }
    if (const std::string_view bare = trim(line); bare.starts_with("- ") && !pending_.file.empty()) {
      pending_.rejected.push_back(fmt::format("{}: {}", pending_.file, bare.substr(2)));
      return true;
    }
    if (line.find("Skipping loading of ") != std::string_view::npos) {
      pending_.file.clear();
      return true;
    }
    return false;
  }

  static std::string_view base_of(std::string_view path) {
    if (path.ends_with(':')) path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
  }

  void whole(std::string_view line) {
    LogFacts& facts = out_.facts;
    if (const auto rest = after(line, "Has Any pass matched? ["))
      facts.any_matched = std::string(rest->substr(0, rest->find(']')));
    if (const auto rest = after(line, "aggregated_speedup=")) facts.aggregated = parse_double(*rest);
    if (const auto rest = after(line, "ESt=")) {
      if (const auto value = parse_double(rest->substr(0, rest->find(' ')))) facts.es.push_back(*value);
    }
    if (out_.variants.empty()) {
      for (const std::string_view sign :
           {"No replacement functions available", "SyntaxError", "ImportError", "ModuleNotFoundError",
            "unstable replacement_func", "No such file or directory", "Timeout", "timed out"}) {
        if (line.find(sign) != std::string_view::npos) facts.hints.emplace_back(trim(line));
      }
    }
  }

  void of_variant(Measured& m, std::string_view line) {
    if (const auto rest = after(line, "[Datatype][eager]:")) {
      m.eager_types_seen = true;
      m.eager_dtypes = dtypes(*rest);
    } else if (const auto compiled = after(line, "[Datatype][compiled]:")) {
      m.compiled_types_seen = true;
      m.compiled_dtypes = dtypes(*compiled);
    } else if (const auto match = after(line, "[DataType]")) {
      m.types_match = match->find("match:True") != std::string_view::npos;
    } else if (const auto shape = after(line, "[Shape]")) {
      m.shapes_match = shape->find("match:True") != std::string_view::npos;
    } else if (const auto rest2 = after(line, "[Correctness][")) {
      correctness(m, *rest2);
    } else if (const auto status = after(line, "[Result] status:")) {
      m.result = std::string(*status);
    } else if (line.find("[Fail due to eager model execution error") != std::string_view::npos) {
      m.eager_failed_line = true;
    } else if (line.find("[Fail due to compiled model execution error") != std::string_view::npos) {
      m.compiled_failed_line = true;
    } else if (const auto eager = after(line, "[Performance][eager]:")) {
      m.eager = medians_of(*eager);
    } else if (const auto perf = after(line, "[Performance][compiled]:")) {
      m.compiled = medians_of(*perf);
    } else if (const auto e2e = after(line, "[Speedup][e2e]:")) {
      m.speedup_e2e = parse_double(*e2e);
    } else if (const auto gpu = after(line, "[Speedup][gpu]:")) {
      m.speedup_gpu = parse_double(*gpu);
    } else if (const auto config = after(line, "[Config] hardware:")) {
      m.hardware = std::string(*config);
    } else if (const auto compiler = after(line, "[Config] compiler:")) {
      m.compiler = std::string(*compiler);
    } else if (const auto failed = after(line, "Compiled model execution failed:")) {
      m.message = std::string(*failed);
    } else if (const auto failed2 = after(line, "Eager model execution failed:")) {
      if (m.message.empty()) m.message = std::string(*failed2);
    } else if (const auto debug = after(line, "debug-model-execution ")) {
      m.exception = std::string(debug->substr(0, debug->find(' ')));
    } else {
      of_passes(m, line);
    }
    if (line.find("Exception:") != std::string_view::npos || line.find("Error:") != std::string_view::npos)
      m.error_line = true;
    if (line.find("No passes modified") != std::string_view::npos) m.no_pass_line = true;
  }

  static void correctness(Measured& m, std::string_view rest) {
    const size_t shut = rest.find("]:");
    if (shut == std::string_view::npos) return;
    const std::string_view key = rest.substr(0, shut), value = trim(rest.substr(shut + 2));
    if (key == "equal")
      m.equal = flags(value);
    else if (key == "max_diff")
      m.max_diff = numbers(value);
    else if (key == "mean_diff")
      m.mean_diff = numbers(value);
    else if (key.starts_with("all_close"))
      m.all_close[std::string(key)] = flags(value);
  }

  void of_passes(Measured& m, std::string_view line) {
    const auto pass = [&m](std::string_view name) -> PassTrace& {
      for (PassTrace& p : m.passes)
        if (p.name == name) return p;
      m.passes.push_back({std::string(name), 0, false, false, {}, {}});
      return m.passes.back();
    };
    if (const auto done = applied(line)) {
      pass(done->second).applied += done->first;
    } else if (const size_t at = line.find(" failed to match."); at != std::string_view::npos) {
      if (const auto name = after(line.substr(0, at), "Pass ")) pass(*name).failed = true;
    } else if (const size_t crash = line.find(" CRASHED with error:"); crash != std::string_view::npos) {
      if (const auto name = after(line.substr(0, crash), "Pass ")) {
        pass(*name).crashed = true;
        pass(*name).crash = std::string(trim(line.substr(crash + 20)));
      }
    } else if (const auto of = after(line, "Diagnostic for ")) {
      diagnosed_ = std::string(of->substr(0, of->find(' ')));
    } else if (line.find("MatchFailure(") != std::string_view::npos && !diagnosed_.empty()) {
      pass(diagnosed_).diagnosis.emplace_back(trim(line));
    }
  }

  void finish() { diagnosed_.clear(); }

  static void close(Measured& m) {
    if (m.result == "success" && m.error_line) m.stray_error = true;
    if (m.message.find("No passes modified") != std::string::npos) m.no_pass_line = true;
    for (const PassTrace& p : m.passes)
      if (p.crashed && m.message.empty()) m.message = p.crash;
  }

  ParsedLog out_;
  Prologue pending_;
  std::string diagnosed_;
};

}  // namespace

ParsedLog parse_log(std::string_view text) { return Parser().parse(text); }

Result<ServiceResponse> parse_response(std::string_view text, std::string_view file) {
  const auto nothing = [&](std::string_view why) {
    return user_error("score.no_evaluation", fmt::format("this is no completed evaluation: {}", why))
        .at(file)
        .with_hint(
            "read no score, speed or correctness from it; ask the service again and save its body alone");
  };
  const std::string_view body = trim(text);
  if (body.empty()) return nothing("the response is empty");
  if (body.front() != '{') return nothing("the response is no JSON object");
  const auto parsed = parse_json(body, file);
  if (!parsed.ok()) return nothing("the JSON ends or breaks in the middle");
  const Json& json = *parsed;
  ServiceResponse out;
  const auto text_of = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  out.error = text_of("error");
  if (!json.contains("stdout") && !json.contains("stderr") && !json.contains("score") &&
      !json.contains("aggregated_score"))
    return nothing(out.error.empty() ? "it has neither output nor score" : out.error);
  const std::string err = text_of("stderr"), all = text_of("stdout");
  out.log = parse_log(all.find("[Processing]") != std::string::npos || err.empty() ? all : err + "\n" + all);
  for (const char* key : {"score", "aggregated_score"}) {
    if (!json.contains(key)) continue;
    const Json& value = json[key];
    if (value.is_number()) out.score = value.get<double>();
    if (value.is_object() && value.contains("score") && value["score"].is_number())
      out.score = value["score"].get<double>();
  }
  if (json.contains("pass_matched") && json["pass_matched"].is_boolean())
    out.pass_matched = json["pass_matched"].get<bool>();
  if (json.contains("returncode") && json["returncode"].is_number_integer())
    out.returncode = json["returncode"].get<int>();
  if (!out.error.empty() && out.log.variants.empty() && !out.score) return nothing(out.error);
  return out;
}

}  // namespace passnet::score
