#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/hash.h"
#include "embedded/python_files.h"
#include "worker/worker.h"

namespace passnet {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string running_program() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return path;
}

/// The files are run as code: a folder that another user may write to is no place for them.
Status check_private(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return user_error("worker.cache", fmt::format("cannot look at {}: {}", path, std::strerror(errno)))
        .at(path);
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
    return user_error("worker.cache", fmt::format("{} is not a private folder of this user", path))
        .at(path)
        .with_hint("remove it, or set XDG_CACHE_HOME to a folder of your own");
  }
  return {};
}

Result<std::string> default_cache_root(FileSystem& files) {
  std::vector<std::string> candidates;
  if (const auto cache = environment("XDG_CACHE_HOME"); !cache.empty())
    candidates.push_back(join_path(cache, "passnet"));
  if (const auto home = environment("HOME"); !home.empty())
    candidates.push_back(join_path(home, ".cache/passnet"));
  const auto temporary = environment("TMPDIR");
  candidates.push_back(
      join_path(temporary.empty() ? "/tmp" : temporary, fmt::format("passnet-{}", ::geteuid())));
  Diagnostic last;
  for (const auto& path : candidates) {
    Status made = files.make_directory(path);
    if (made.ok() && ::chmod(path.c_str(), 0700) != 0) {
      made = user_error("worker.cache", fmt::format("cannot make {} private: {}", path, std::strerror(errno)))
                 .at(path);
    }
    if (made.ok()) made = check_private(path);
    if (made.ok() && ::access(path.c_str(), W_OK) == 0) return path;
    if (!made.ok()) last = std::move(made).error();
  }
  last.code = "worker.cache";
  last.hint = "set XDG_CACHE_HOME to a folder that can be written";
  return last;
}

bool holds_all(FileSystem& files, const std::string& root) {
  for (const auto& file : embedded::python_files()) {
    const auto content = files.read(join_path(root, file.path));
    if (!content.ok() || *content != file.content) return false;
  }
  return true;
}

}  // namespace

Result<PythonChoice> find_python(std::string_view program) {
  if (const auto named = environment("PASSNET_PYTHON"); !named.empty()) {
    const auto found = find_program(named);
    if (!found) {
      return user_error("worker.python", fmt::format("PASSNET_PYTHON names {}, which is no program", named))
          .with_hint("set it to a Python with torch, or unset it");
    }
    return PythonChoice{*found, "PASSNET_PYTHON"};
  }
  const std::string self = program.empty() ? running_program() : std::string(program);
  for (std::string folder = dir_name(self);;) {
    const std::string candidate = join_path(folder, ".venv/bin/python");
    if (find_program(candidate)) return PythonChoice{candidate, fmt::format(".venv in {}", folder)};
    std::string parent = dir_name(folder);
    if (parent == folder) break;
    folder = std::move(parent);
  }
  if (const auto found = find_program("python3")) return PythonChoice{*found, "PATH"};
  return user_error("worker.python",
                    fmt::format("no Python was found: none in a .venv at or above {}, no python3 on PATH",
                                dir_name(self)))
      .with_hint("set PASSNET_PYTHON to a Python with torch");
}

Result<std::string> unpack_worker_files(FileSystem& files, std::string cache_root) {
  if (cache_root.empty()) {
    PN_TRY(cache_root, default_cache_root(files));
  }
  Sha256 hash;
  for (const auto& file : embedded::python_files()) hash.field(file.path).field(file.content);
  const std::string root = join_path(cache_root, "python-" + hash.hex().substr(0, 16));
  // Workers of one process start in threads of their own; the name of the staging folder is the process's.
  static std::mutex unpacking;
  const std::lock_guard lock(unpacking);
  if (holds_all(files, root)) return root;

  // Beside and renamed, so that a process that starts meanwhile sees all files or none.
  const std::string staging = fmt::format("{}.{}", root, ::getpid());
  PN_CHECK_OK(files.remove_all(staging));
  for (const auto& file : embedded::python_files()) {
    const std::string path = join_path(staging, file.path);
    PN_CHECK_OK(files.make_directory(dir_name(path)));
    PN_CHECK_OK(files.write(path, file.content));
  }
  if (files.exists(root)) {
    PN_CHECK_OK(files.exchange_directories(staging, root));
    PN_CHECK_OK(files.remove_all(staging));
  } else if (auto renamed = files.rename(staging, root); !renamed.ok()) {
    // Another process was faster.
    PN_CHECK_OK(files.remove_all(staging));
    if (!holds_all(files, root)) return std::move(renamed).error();
  }
  return root;
}

}  // namespace passnet
