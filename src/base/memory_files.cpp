#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/files.h"

namespace passnet {

namespace {

Diagnostic failure(std::string_view code, const std::string& path, std::string_view what) {
  return user_error(code, fmt::format("{}: {}", path, what)).at(path);
}

bool below(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.size() > 1;
  if (directory == ".") return !path.starts_with('/');
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

/// Moves the keys below (or at) `from` to `to`.
template <class Map>
void move_keys(Map& map, const std::string& from, const std::string& to) {
  Map moved;
  for (auto it = map.begin(); it != map.end();) {
    if (it->first == from || below(it->first, from)) {
      moved.emplace(to + it->first.substr(from.size()), std::move(it->second));
      it = map.erase(it);
    } else {
      ++it;
    }
  }
  for (auto& [key, value] : moved) map[key] = std::move(value);
}

}  // namespace

MemoryFiles::MemoryFiles(const std::map<std::string, std::string>& files) {
  for (const auto& [path, content] : files) files_[normalize_path(path)] = content;
}

void MemoryFiles::put(const std::string& path, std::string_view content) {
  files_[normalize_path(path)] = std::string(content);
}

void MemoryFiles::fail_next(const std::string& path, std::string_view code) {
  failures_[normalize_path(path)] = std::string(code);
}

Status MemoryFiles::check_failure(const std::string& path) {
  const auto it = failures_.find(path);
  if (it == failures_.end()) return {};
  const std::string code = it->second;
  failures_.erase(it);
  return failure(code, path, "failed as the test asked");
}

Result<std::string> MemoryFiles::read(const std::string& raw, std::uint64_t limit) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  const auto it = files_.find(path);
  if (it == files_.end()) {
    if (is_directory(path)) return failure("file.not_file", path, "is a folder, not a file");
    return failure("file.missing", path, "does not exist");
  }
  if (it->second.size() > limit) return failure("file.too_large", path, "is too large");
  return it->second;
}

Status MemoryFiles::write(const std::string& raw, std::string_view content) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  if (is_directory(path)) return failure("file.not_file", path, "is a folder, not a file");
  if (!is_directory(dir_name(path))) return failure("file.missing", path, "its folder does not exist");
  files_[path] = std::string(content);
  return {};
}

Status MemoryFiles::append(const std::string& raw, std::string_view content) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  const auto it = files_.find(path);
  if (it == files_.end()) return write(path, content);
  it->second += content;
  return {};
}

Result<FileInfo> MemoryFiles::stat(const std::string& raw) {
  const std::string path = normalize_path(raw);
  FileInfo info;
  if (const auto it = files_.find(path); it != files_.end()) {
    info.size = it->second.size();
    return info;
  }
  info.type = FileType::kDirectory;
  const auto inside = [&](const auto& entry) { return below(entry.first, path); };
  if (path == "/" || path == "." || directories_.contains(path) ||
      std::any_of(files_.begin(), files_.end(), inside) ||
      std::any_of(directories_.begin(), directories_.end(), inside)) {
    return info;
  }
  return failure("file.missing", path, "does not exist");
}

Result<std::vector<DirEntry>> MemoryFiles::list(const std::string& raw) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  PN_TRY(const FileInfo info, stat(path));
  if (info.type != FileType::kDirectory) return failure("file.not_directory", path, "is no folder");
  std::set<std::string> names;
  const std::size_t skip = path == "." ? 0 : path == "/" ? 1 : path.size() + 1;
  const auto collect = [&](const std::string& key) {
    if (below(key, path)) names.insert(key.substr(skip, key.find('/', skip) - skip));
  };
  for (const auto& [key, value] : files_) collect(key);
  for (const auto& [key, value] : directories_) collect(key);
  std::vector<DirEntry> entries;
  for (const auto& name : names) {
    PN_TRY(const FileInfo entry, stat(join_path(path, name)));
    entries.push_back({name, entry});
  }
  return entries;
}

Status MemoryFiles::make_directory(const std::string& raw) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  for (std::string at = path; at != "/" && at != "."; at = dir_name(at)) {
    if (files_.contains(at)) return failure("file.exists", at, "exists and is no folder");
    directories_[at] = true;
  }
  return {};
}

Status MemoryFiles::rename(const std::string& raw_from, const std::string& raw_to) {
  const std::string from = normalize_path(raw_from);
  const std::string to = normalize_path(raw_to);
  PN_CHECK_OK(check_failure(from));
  PN_TRY(const FileInfo info, stat(from));
  if (const auto target = stat(to); target.ok()) {
    const bool both_files = target->type == FileType::kFile && info.type == FileType::kFile;
    if (!both_files) return failure("file.exists", to, "exists already");
    files_.erase(to);
  }
  move_keys(files_, from, to);
  move_keys(directories_, from, to);
  return {};
}

Status MemoryFiles::remove_all(const std::string& raw) {
  const std::string path = normalize_path(raw);
  PN_CHECK_OK(check_failure(path));
  const auto gone = [&](const auto& entry) { return entry.first == path || below(entry.first, path); };
  std::erase_if(files_, gone);
  std::erase_if(directories_, gone);
  return {};
}

Status MemoryFiles::exchange_directories(const std::string& raw_a, const std::string& raw_b) {
  const std::string a = normalize_path(raw_a);
  const std::string b = normalize_path(raw_b);
  PN_CHECK_OK(check_failure(a));
  for (const auto& path : {a, b}) {
    if (!is_directory(path))
      return failure(exists(path) ? "file.not_directory" : "file.missing", path, "is no folder");
  }
  const std::string parked = a + ".exchange.old";
  for (const auto& [from, to] : {std::pair{a, parked}, std::pair{b, a}, std::pair{parked, b}}) {
    move_keys(files_, from, to);
    move_keys(directories_, from, to);
  }
  return {};
}

Status MemoryFiles::recover_exchange(const std::string& raw) { return check_failure(normalize_path(raw)); }

}  // namespace passnet
