#include "solve/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <fmt/format.h>

namespace passnet {
namespace {

constexpr std::string_view kSchema = "passnet.evaluations/1";

Json measurement_json(const Measurement& m) {
  Json json = {{"outcome", m.outcome},
               {"correct", m.correct},
               {"counts", m.counts},
               {"eager_us", or_null(m.eager_us)},
               {"time_us", or_null(m.time_us)}};
  json["ratio"] = m.ratio ? Json({m.ratio->value, m.ratio->low, m.ratio->high}) : Json(nullptr);
  if (!m.why.empty()) json["why"] = m.why;
  return json;
}

Diagnostic bad(std::string_view what) {
  return user_error("solve.answers", fmt::format("the answers to evaluations: {}", what))
      .with_hint("docs/json.md describes the document");
}

std::optional<double> number(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_number()) return std::nullopt;
  return it->get<double>();
}

template <class T>
T value_or(const Json& json, const char* key, T fallback) {
  const auto it = json.find(key);
  if (it == json.end()) return fallback;
  if constexpr (std::is_same_v<T, bool>) {
    return it->is_boolean() ? it->template get<bool>() : fallback;
  } else {
    return it->is_string() ? it->template get<std::string>() : fallback;
  }
}

Result<Measurement> measurement_of(const Json& json) {
  if (!json.is_object()) return bad("a measurement is an object");
  Measurement m;
  m.correct = value_or(json, "correct", true);
  m.counts = value_or(json, "counts", true);
  m.eager_us = number(json, "eager_us");
  m.time_us = number(json, "time_us");
  const bool slow = m.eager_us && m.time_us && *m.time_us > *m.eager_us;
  m.outcome = value_or<std::string>(json, "outcome",
                                    !m.correct ? "inaccurate"
                                    : slow     ? "correct_but_slow"
                                               : "correct");
  m.why = value_or<std::string>(json, "why", "");
  if (const auto it = json.find("ratio"); it != json.end() && !it->is_null()) {
    if (!it->is_array() || it->size() != 3 ||
        !std::all_of(it->begin(), it->end(), [](const Json& v) { return v.is_number(); }))
      return bad("a ratio is [value, low, high]");
    m.ratio = Interval{(*it)[0].get<double>(), (*it)[1].get<double>(), (*it)[2].get<double>()};
  }
  return m;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

const Measurement* Evaluation::find(std::string_view contender, std::string_view variant) const {
  const auto by_variant = results.find(std::string(contender));
  if (by_variant == results.end()) return nullptr;
  const auto it = by_variant->second.find(std::string(variant));
  return it == by_variant->second.end() ? nullptr : &it->second;
}

Json to_json(const Evaluation& evaluation) {
  Json contenders = Json::object();
  for (const auto& [name, variants] : evaluation.results) {
    contenders[name] = Json::object();
    for (const auto& [variant, m] : variants) contenders[name][variant] = measurement_json(m);
  }
  return {{"contenders", std::move(contenders)}, {"scores", evaluation.scores},
          {"comparable", evaluation.comparable}, {"unmeasured", evaluation.unmeasured},
          {"seconds", evaluation.seconds},       {"folder", evaluation.folder}};
}

Result<Evaluation> evaluation_from_json(const Json& json, const EvaluationRequest& request) {
  if (!json.is_object() || !json.contains("contenders") || !json["contenders"].is_object())
    return bad("an evaluation has an object `contenders`");
  Evaluation evaluation;
  evaluation.comparable = value_or(json, "comparable", true);
  evaluation.seconds = number(json, "seconds").value_or(0);
  evaluation.folder = value_or<std::string>(json, "folder", "");
  if (const auto it = json.find("unmeasured"); it != json.end() && it->is_array()) {
    for (const Json& name : *it)
      if (name.is_string()) evaluation.unmeasured.push_back(name.get<std::string>());
  }
  if (const auto it = json.find("scores"); it != json.end() && it->is_object()) {
    for (const auto& [name, score] : it->items())
      if (score.is_number()) evaluation.scores[name] = score.get<double>();
  }
  const Json& contenders = json["contenders"];
  for (const Contender& contender : request.contenders) {
    if (!contenders.contains(contender.name)) continue;
    const Json& answers = contenders[contender.name];
    if (!answers.is_object()) return bad("a contender has an object of variants");
    for (const std::string& variant : request.variants) {
      if (std::find(evaluation.unmeasured.begin(), evaluation.unmeasured.end(), variant) !=
          evaluation.unmeasured.end())
        continue;
      const char* key = answers.contains(variant) ? variant.c_str() : "*";
      if (!answers.contains(key)) continue;
      PN_TRY(evaluation.results[contender.name][variant], measurement_of(answers[key]));
    }
  }
  return evaluation;
}

Result<ScriptedEvaluator> ScriptedEvaluator::read(FileSystem& files, const std::string& path) {
  PN_TRY(const std::string text, files.read(path));
  PN_TRY(Json json, parse_json(text, path));
  if (!json.is_object() || json.value("schema", Json()) != kSchema || !json.contains("evaluations") ||
      !json["evaluations"].is_array())
    return bad(fmt::format("a document with \"schema\": \"{}\" and a list `evaluations` is wanted", kSchema))
        .at(path);
  return ScriptedEvaluator(std::move(json));
}

Result<Evaluation> ScriptedEvaluator::run(const EvaluationRequest& request) {
  const size_t number_of_this = asked.size();
  asked.push_back(request);
  const Json& evaluations = script_["evaluations"];
  if (number_of_this >= evaluations.size())
    return bad(fmt::format("there is none for evaluation {}", number_of_this + 1));
  const Json& answer = evaluations[number_of_this];
  const double seconds = answer.is_object() ? number(answer, "seconds").value_or(0) : 0;
  if (clock_ != nullptr)
    clock_->advance(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds)));
  if (answer.is_object() && answer.contains("error"))
    return user_error("solve.evaluator", value_or<std::string>(answer, "error", "no answer"));
  return evaluation_from_json(answer, request);
}

std::optional<Interval> ratio_of_blocks(const std::vector<double>& first, const std::vector<double>& second,
                                        size_t block) {
  const auto medians = [block](const std::vector<double>& times) {
    std::vector<double> out;
    for (size_t i = 0; i < times.size(); i += block) {
      const size_t end = std::min(times.size(), i + block);
      out.push_back(median({times.begin() + static_cast<std::ptrdiff_t>(i),
                            times.begin() + static_cast<std::ptrdiff_t>(end)}));
    }
    return out;
  };
  std::vector<double> a = medians(first), b = medians(second);
  const size_t n = std::min(a.size(), b.size());
  if (n < 2) return std::nullopt;
  // The same draws in every run and on every machine: a generator of its own.
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((state >> 33) % n);
  };
  constexpr size_t kDraws = 2000;
  std::vector<double> ratios;
  ratios.reserve(kDraws);
  for (size_t d = 0; d < kDraws; ++d) {
    std::vector<double> x, y;
    for (size_t i = 0; i < n; ++i) {
      const size_t pick = draw();
      x.push_back(a[pick]);
      y.push_back(b[pick]);
    }
    const double below = median(std::move(y));
    if (below > 0) ratios.push_back(median(std::move(x)) / below);
  }
  const double below = median(second);
  if (ratios.empty() || below <= 0) return std::nullopt;
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<size_t>(std::lround(share * static_cast<double>(ratios.size() - 1)))];
  };
  return Interval{median(first) / below, at(0.05), at(0.95)};
}

}  // namespace passnet
