#include "sample/state_store.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "base/json.h"

namespace passnet {
namespace {

bool is_compiled_python(std::string_view path) {
  return path.find("__pycache__/") != std::string_view::npos || path.ends_with(".pyc");
}

bool is_marker(std::string_view path) { return path == ".ignore"; }

// The state in `dir`, everything in it but the marker.
Result<StateFiles> read_tree(FileSystem& files, const std::string& dir) {
  StateFiles out;
  if (!files.is_directory(dir)) return out;
  PN_TRY(const std::vector<std::string> names, files.list_recursive(dir));
  for (const std::string& name : names) {
    if (is_marker(name)) continue;
    PN_TRY(out[name], files.read(join_path(dir, name)));
  }
  return out;
}

Status write_tree(FileSystem& files, const std::string& dir, const StateFiles& state) {
  PN_CHECK_OK(files.make_directory(dir));
  for (const auto& [name, content] : state) {
    const std::string path = join_path(dir, name);
    PN_CHECK_OK(files.make_directory(std::string(dir_name(path))));
    PN_CHECK_OK(files.write(path, content));
  }
  return ok_status();
}

}  // namespace

std::string state_hash(const StateFiles& state) {
  Sha256 hash;
  for (const auto& [name, content] : state) {
    if (is_marker(name) || is_compiled_python(name)) continue;
    hash.field(name).field(content);
  }
  return hash.hex().substr(0, 16);
}

Result<StateStore> StateStore::open(FileSystem& files, Clock& clock, std::string root) {
  const std::string dir = join_path(root, ".passnet");
  PN_CHECK_OK(files.make_directory(dir));
  std::optional<LockFile> lock;
  // Only the real disk has other processes on it.
  if (&files == &real_files()) {
    auto taken = LockFile::acquire(join_path(dir, "lock"), std::chrono::seconds(2));
    if (!taken.ok()) {
      return std::move(taken.error())
          .at(root)
          .with_hint("another passnet works on this sample; wait for it, or stop it");
    }
    lock = std::move(taken).value();
  }
  StateStore store(files, clock, std::move(root), std::move(lock));
  PN_CHECK_OK(files.recover_exchange(store.pass_dir()));
  PN_CHECK_OK(files.remove_all(join_path(dir, "staging")));
  return store;
}

Result<StateFiles> StateStore::current() { return read_tree(*files_, pass_dir()); }

Result<std::string> StateStore::keep(const StateFiles& state, std::string_view origin) {
  const std::string hash = state_hash(state);
  const std::string dir = state_dir(hash);
  // state.json is written last: a state without it was interrupted and is written again.
  if (files_->is_file(join_path(dir, "state.json"))) return hash;
  PN_CHECK_OK(files_->remove_all(join_path(dir, "files")));
  PN_CHECK_OK(write_tree(*files_, join_path(dir, "files"), state));
  std::vector<std::string> names;
  for (const auto& [name, content] : state) names.push_back(name);
  const Json info = {{"schema", "passnet.state/1"},
                     {"hash", hash},
                     {"origin", origin},
                     {"saved", clock_->wall()},
                     {"saved_text", iso_time(clock_->wall())},
                     {"files", names}};
  PN_CHECK_OK(put_record(hash, "state", info));
  return hash;
}

Result<std::string> StateStore::install(const StateFiles& state) {
  PN_TRY(const StateFiles before, current());
  const std::string hash = state_hash(state);
  if (before == state) {
    PN_CHECK_OK(keep(state));
    return hash;
  }
  // An empty pass_dir is no state worth keeping.
  if (!before.empty()) {
    PN_CHECK_OK(keep(before, "found"));
  }
  PN_CHECK_OK(keep(state));
  const std::string staging = join_path(private_dir(), "staging");
  PN_CHECK_OK(files_->remove_all(staging));
  PN_CHECK_OK(write_tree(*files_, staging, state));
  const std::string marker = join_path(pass_dir(), ".ignore");
  if (files_->is_file(marker)) {
    PN_TRY(const std::string content, files_->read(marker));
    PN_CHECK_OK(files_->write(join_path(staging, ".ignore"), content));
  }
  PN_CHECK_OK(files_->make_directory(pass_dir()));
  PN_CHECK_OK(files_->exchange_directories(pass_dir(), staging));
  PN_CHECK_OK(files_->remove_all(staging));
  return hash;
}

Result<StateFiles> StateStore::read_state(std::string_view hash) {
  return read_tree(*files_, join_path(state_dir(hash), "files"));
}

Result<std::vector<StateInfo>> StateStore::list() {
  std::vector<StateInfo> states;
  const std::string history = join_path(private_dir(), "history");
  if (!files_->is_directory(history)) return states;
  PN_TRY(const StateFiles now, current());
  const std::string in_force = now.empty() ? std::string() : state_hash(now);
  PN_TRY(const std::vector<DirEntry> entries, files_->list(history));
  for (const DirEntry& entry : entries) {
    const std::optional<Json> record = get_record(entry.name, "state");
    if (!record) continue;
    StateInfo info;
    info.hash = entry.name;
    info.origin = record->value("origin", "passnet");
    info.saved = record->value("saved", 0.0);
    info.files = record->value("files", std::vector<std::string>{});
    info.current = info.hash == in_force;
    states.push_back(std::move(info));
  }
  std::stable_sort(states.begin(), states.end(),
                   [](const StateInfo& a, const StateInfo& b) { return a.saved < b.saved; });
  return states;
}

Result<std::string> StateStore::restore(std::string_view name) {
  PN_TRY(const std::vector<StateInfo> states, list());
  std::vector<std::string> matching, known;
  for (const StateInfo& state : states) {
    known.push_back(fmt::format("{} ({}, {})", state.hash, state.origin, iso_time(state.saved)));
    if (name == "found" ? state.origin == "found" && matching.empty() : state.hash.starts_with(name)) {
      matching.push_back(state.hash);
    }
  }
  if (matching.empty()) {
    return user_error("state.unknown", fmt::format("no kept state is named '{}'", name))
        .at(join_path(private_dir(), "history"))
        .with_hint(known.empty() ? "nothing was kept yet: solve keeps every state it writes or finds"
                                 : fmt::format("kept states: {}", fmt::join(known, ", ")));
  }
  if (matching.size() > 1) {
    return user_error("state.ambiguous",
                      fmt::format("'{}' begins the names of {} states", name, matching.size()))
        .at(join_path(private_dir(), "history"))
        .with_hint(fmt::format("give more digits: {}", fmt::join(matching, ", ")));
  }
  PN_TRY(const StateFiles state, read_state(matching.front()));
  return install(state);
}

Status StateStore::put_record(std::string_view hash, std::string_view name, const Json& record) {
  const std::string dir = state_dir(hash);
  PN_CHECK_OK(files_->make_directory(dir));
  return files_->write(join_path(dir, fmt::format("{}.json", name)), dump_json(record, 1) + "\n");
}

std::optional<Json> StateStore::get_record(std::string_view hash, std::string_view name) {
  const std::string path = join_path(state_dir(hash), fmt::format("{}.json", name));
  auto text = files_->read(path);
  if (!text.ok()) return std::nullopt;
  auto json = parse_json(*text, path);
  // A record that cannot be read is as good as none: it is written anew.
  if (!json.ok()) return std::nullopt;
  return std::move(json).value();
}

}  // namespace passnet
