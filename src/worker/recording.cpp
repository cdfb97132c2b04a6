#include "worker/recording.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"

namespace passnet {

namespace {

void substitute(Json& value, const Placeholders& placeholders, bool forth) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    for (const auto& [real, name] : placeholders)
      text = forth ? replace_all(text, real, name) : replace_all(text, name, real);
    value = std::move(text);
  } else if (value.is_structured()) {
    for (auto& element : value) substitute(element, placeholders, forth);
  }
}

Placeholders longest_first(Placeholders placeholders) {
  std::stable_sort(placeholders.begin(), placeholders.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return placeholders;
}

Json request_json(const WorkerRequest& request) {
  Json out = {{"cmd", request.cmd}};
  if (request.arguments.is_object()) {
    for (const auto& [key, value] : request.arguments.items())
      if (!out.contains(key)) out[key] = value;
  }
  return out;
}

Json failure_json(const Diagnostic& diagnostic) {
  Json out = {{"kind", to_string(diagnostic.kind)},
              {"code", diagnostic.code},
              {"message", diagnostic.message},
              {"remedy", diagnostic.hint},
              {"fields", diagnostic.fields}};
  return out;
}

Diagnostic failure_of(const Json& json) {
  Diagnostic out;
  out.kind = json.value("kind", "user") == "internal" ? DiagnosticKind::kInternal : DiagnosticKind::kUser;
  out.code = json.value("code", "");
  out.message = json.value("message", "");
  out.hint = json.value("remedy", "");
  if (const auto fields = json.find("fields"); fields != json.end() && fields->is_object()) {
    for (const auto& [key, value] : fields->items()) {
      if (value.is_string()) out.fields[key] = value.get<std::string>();
    }
  }
  return out;
}

/// Equal whatever the order of the keys: callers may build the same request differently.
bool same(const Json& a, const Json& b) {
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      const auto other = b.find(key);
      if (other == b.end() || !same(value, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
  }
  return a == b;
}

}  // namespace

RecordingWorker::RecordingWorker(Worker& worker, FileSystem& files, std::string path,
                                 Placeholders placeholders)
    : worker_(worker),
      files_(files),
      path_(std::move(path)),
      placeholders_(longest_first(std::move(placeholders))) {}

Result<Json> RecordingWorker::call(const WorkerRequest& request) {
  Json events = Json::array();
  WorkerRequest watched = request;
  watched.on_event = [&](const Json& event) {
    Json kept = event;
    for (const char* key : {"v", "id"}) kept.erase(key);
    events.push_back(std::move(kept));
    if (request.on_event) request.on_event(event);
  };
  auto result = worker_.call(watched);
  Json line = {{"request", request_json(request)}, {"events", std::move(events)}};
  if (result.ok()) {
    line["reply"] = *result;
  } else {
    line["failure"] = failure_json(result.error());
  }
  substitute(line, placeholders_, true);
  PN_CHECK_OK(files_.append(path_, dump_json(line) + "\n"));
  return result;
}

Result<ReplayingWorker> ReplayingWorker::open(FileSystem& files, const std::string& path,
                                              Placeholders placeholders) {
  PN_TRY(const std::string text, files.read(path));
  ReplayingWorker worker(longest_first(std::move(placeholders)));
  int number = 0;
  for (const auto line : split_lines(text)) {
    ++number;
    if (trim(line).empty()) continue;
    const auto bad = [&](std::string_view why) {
      return user_error("recording.syntax", fmt::format("line {} is no recorded call: {}", number, why))
          .at(path, {number, 0, 0, 0})
          .with_hint("record the calls anew");
    };
    auto parsed = parse_json(line);
    if (!parsed.ok()) return bad(parsed.error().message);
    if (!parsed->is_object() || !parsed->contains("request")) return bad("it has no request");
    if (parsed->contains("reply") == parsed->contains("failure"))
      return bad("it needs either a reply or a failure");
    substitute(*parsed, worker.placeholders_, false);
    Entry entry;
    entry.request = (*parsed)["request"];
    entry.events = parsed->value("events", Json::array());
    entry.reply = parsed->value("reply", Json(nullptr));
    entry.failure = parsed->value("failure", Json(nullptr));
    worker.entries_.push_back(std::move(entry));
  }
  return worker;
}

Result<Json> ReplayingWorker::call(const WorkerRequest& request) {
  const Json wanted = request_json(request);
  Entry* found = nullptr;
  for (auto& entry : entries_) {
    if (!same(entry.request, wanted)) continue;
    found = &entry;
    if (!entry.used) break;
  }
  if (found == nullptr) {
    return internal_error("worker.not_recorded",
                          fmt::format("no such call was recorded: {}", dump_json(wanted)))
        .with_hint("record the calls anew");
  }
  found->used = true;
  if (request.on_event) {
    for (const auto& event : found->events) request.on_event(event);
  }
  if (!found->failure.is_null()) return failure_of(found->failure);
  return found->reply;
}

}  // namespace passnet
