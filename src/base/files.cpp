#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

namespace passnet {

namespace {

struct ErrnoText {
  std::string_view code;
  std::string_view what;
  std::string_view hint;
};

ErrnoText describe(int error) {
  switch (error) {
    case ENOENT: return {"file.missing", "does not exist", "check the path"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {"file.denied", "may not be accessed", "check the permissions of the file and of its folder"};
    case ENOTDIR:
      return {"file.not_directory", "is no folder, or lies below something that is none", "check the path"};
    case EISDIR: return {"file.not_file", "is a folder, not a file", "name a file"};
    case EEXIST:
    case ENOTEMPTY: return {"file.exists", "exists already", "remove it, or choose another name"};
    case ELOOP: return {"file.loop", "is a loop of symbolic links", "remove the link"};
    case ENOSPC:
    case EDQUOT: return {"file.full", "could not be written: the disk is full", "free some space"};
    default: return {"file.io", "", "see the reason given by the system"};
  }
}

Diagnostic failure(const std::string& path, int error, std::string_view doing) {
  const ErrnoText text = describe(error);
  const std::string message = text.what.empty()
                                  ? fmt::format("cannot {} {}: {}", doing, path, std::strerror(error))
                                  : fmt::format("cannot {} {}: it {}", doing, path, text.what);
  return user_error(text.code, message).at(path).with_hint(text.hint);
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_;
};

int write_fully(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Makes a rename in this folder survive a power cut. Some file systems refuse fsync on folders: no matter.
void sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.open()) ::fsync(fd.get());
}

FileInfo info_of(const struct stat& status) {
  FileInfo info;
  info.type = S_ISREG(status.st_mode)   ? FileType::kFile
              : S_ISDIR(status.st_mode) ? FileType::kDirectory
                                        : FileType::kOther;
  info.size = static_cast<std::uint64_t>(status.st_size);
  info.modified =
      static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
  return info;
}

class RealFiles final : public FileSystem {
 public:
  explicit RealFiles(bool kernel_exchange) : kernel_exchange_(kernel_exchange) {}

  Result<std::string> read(const std::string& path, std::uint64_t limit) override {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.open()) return failure(path, errno, "read");
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return failure(path, errno, "read");
    if (S_ISDIR(status.st_mode)) return failure(path, EISDIR, "read");
    if (!S_ISREG(status.st_mode)) {
      return user_error("file.not_file", fmt::format("cannot read {}: it is a device, pipe or socket", path))
          .at(path)
          .with_hint("name a regular file");
    }
    std::string content;
    content.reserve(
        static_cast<std::size_t>(std::min<std::uint64_t>(static_cast<std::uint64_t>(status.st_size), limit)));
    char buffer[1 << 16];
    while (true) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(path, errno, "read");
      if (got == 0) return content;
      content.append(buffer, static_cast<std::size_t>(got));
      if (content.size() > limit) {
        return user_error("file.too_large",
                          fmt::format("cannot read {}: it is larger than {} bytes", path, limit))
            .at(path)
            .with_hint("check what this file is: sources and metadata are far smaller");
      }
    }
  }

  Status write(const std::string& path, std::string_view content) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return failure(path, EISDIR, "write");
    std::string temporary = path + ".tmpXXXXXX";
    {
      const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
      if (!fd.open()) return failure(path, errno, "write");
      int error = write_fully(fd.get(), content);
      if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
      // mkostemp makes the file private; a written file gets what open() would have given, or its old mode.
      const mode_t mask = ::umask(0);
      ::umask(mask);
      const mode_t mode = S_ISREG(status.st_mode) ? status.st_mode & 07777 : 0666 & ~mask;
      if (error == 0 && ::fchmod(fd.get(), mode) != 0) error = errno;
      if (error != 0) {
        ::unlink(temporary.c_str());
        return failure(path, error, "write");
      }
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      const int error = errno;
      ::unlink(temporary.c_str());
      return failure(path, error, "write");
    }
    sync_directory(dir_name(path));
    return {};
  }

  Status append(const std::string& path, std::string_view content) override {
    const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!fd.open()) return failure(path, errno, "append to");
    if (const int error = write_fully(fd.get(), content); error != 0)
      return failure(path, error, "append to");
    return {};
  }

  Result<FileInfo> stat(const std::string& path) override {
    struct stat link {};
    if (::lstat(path.c_str(), &link) != 0) return failure(path, errno, "look at");
    if (!S_ISLNK(link.st_mode)) return info_of(link);
    struct stat target {};
    if (::stat(path.c_str(), &target) != 0) return failure(path, errno, "look at");
    FileInfo info = info_of(target);
    info.is_link = true;
    return info;
  }

  Result<std::vector<DirEntry>> list(const std::string& path) override {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) return failure(path, errno, "list");
    std::vector<DirEntry> entries;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(directory);
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      auto info = stat(join_path(path, name));
      FileInfo other;
      other.type = FileType::kOther;
      entries.push_back({name, info.ok() ? *info : other});
    }
    const int error = errno;
    ::closedir(directory);
    if (error != 0) return failure(path, error, "list");
    std::sort(entries.begin(), entries.end(),
              [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
    return entries;
  }

  Status make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return {};
    int error = errno;
    if (error == EEXIST) {
      struct stat status {};
      if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return {};
      return failure(path, EEXIST, "make the folder");
    }
    if (error != ENOENT) return failure(path, error, "make the folder");
    const std::string parent = dir_name(path);
    if (parent == path) return failure(path, error, "make the folder");
    PN_CHECK_OK(make_directory(parent));
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) return failure(path, errno, "make the folder");
    return {};
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      const int error = errno;
      struct stat status {};
      // The system blames neither by name: say which of the two is the trouble.
      return failure(::lstat(from.c_str(), &status) != 0 ? from : to, error, "rename to");
    }
    sync_directory(dir_name(to));
    return {};
  }

  Status remove_all(const std::string& path) override {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) return {};
      return failure(path, errno, "remove");
    }
    if (S_ISDIR(status.st_mode)) {
      PN_TRY(const auto entries, list(path));
      for (const auto& entry : entries) PN_CHECK_OK(remove_all(join_path(path, entry.name)));
      if (::rmdir(path.c_str()) != 0) return failure(path, errno, "remove");
      return {};
    }
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failure(path, errno, "remove");
    return {};
  }

  Status exchange_directories(const std::string& a, const std::string& b) override {
    for (const auto* path : {&a, &b}) {
      struct stat status {};
      if (::lstat(path->c_str(), &status) != 0) return failure(*path, errno, "exchange");
      if (!S_ISDIR(status.st_mode)) return failure(*path, ENOTDIR, "exchange");
    }
    if (!kernel_exchange_) return journalled_exchange(a, b);
    constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE, absent from older headers
    if (::syscall(SYS_renameat2, AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), kExchange) == 0) {
      sync_directory(dir_name(a));
      sync_directory(dir_name(b));
      return {};
    }
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return failure(a, errno, "exchange");
    return journalled_exchange(a, b);
  }

  Status recover_exchange(const std::string& a) override {
    const std::string journal = journal_of(a);
    auto content = read(journal, 1 << 16);
    if (!content.ok()) {
      if (content.error().code == "file.missing") return {};
      return std::move(content).error();
    }
    const std::string b(content->substr(0, content->find('\n')));
    if (b.empty()) return remove_all(journal);
    return finish_exchange(a, b);
  }

 private:
  static std::string journal_of(const std::string& a) { return a + ".exchange"; }
  static std::string parking_of(const std::string& a) { return a + ".exchange.old"; }

  Status journalled_exchange(const std::string& a, const std::string& b) {
    PN_CHECK_OK(write(journal_of(a), b + "\n"));
    PN_CHECK_OK(rename(a, parking_of(a)));
    return finish_exchange(a, b);
  }

  /// a -> parking, b -> a, parking -> b: which of them still exist says which steps are to be done.
  Status finish_exchange(const std::string& a, const std::string& b) {
    struct stat status {};
    const bool parked = ::lstat(parking_of(a).c_str(), &status) == 0;
    const bool has_a = ::lstat(a.c_str(), &status) == 0;
    if (parked && !has_a) PN_CHECK_OK(rename(b, a));
    if (parked) PN_CHECK_OK(rename(parking_of(a), b));
    return remove_all(journal_of(a));
  }

  bool kernel_exchange_;
};

}  // namespace

FileSystem& real_files() {
  static RealFiles files(true);  // no state: one is enough for everybody
  return files;
}

FileSystem& real_files_with_journal() {
  static RealFiles files(false);
  return files;
}

bool FileSystem::exists(const std::string& path) { return stat(path).ok(); }

bool FileSystem::is_file(const std::string& path) {
  const auto info = stat(path);
  return info.ok() && info->type == FileType::kFile;
}

bool FileSystem::is_directory(const std::string& path) {
  const auto info = stat(path);
  return info.ok() && info->type == FileType::kDirectory;
}

Result<std::vector<std::string>> FileSystem::list_recursive(const std::string& root) {
  std::vector<std::string> out;
  std::vector<std::string> pending = {""};
  while (!pending.empty()) {
    const std::string below = pending.back();
    pending.pop_back();
    PN_TRY(const auto entries, list(below.empty() ? root : join_path(root, below)));
    for (const auto& entry : entries) {
      const std::string path = below.empty() ? entry.name : join_path(below, entry.name);
      // Not entering linked folders is also what keeps a loop of links from being endless.
      if (entry.info.type == FileType::kDirectory && !entry.info.is_link) pending.push_back(path);
      if (entry.info.type == FileType::kFile) out.push_back(path);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Status FileSystem::copy_directory(const std::string& from, const std::string& to) {
  PN_CHECK_OK(make_directory(to));
  PN_TRY(const auto entries, list(from));
  for (const auto& entry : entries) {
    const std::string source = join_path(from, entry.name);
    const std::string target = join_path(to, entry.name);
    if (entry.info.type == FileType::kDirectory && !entry.info.is_link) {
      PN_CHECK_OK(copy_directory(source, target));
    } else if (entry.info.type == FileType::kFile) {
      PN_TRY(const std::string content, read(source));
      PN_CHECK_OK(write(target, content));
    }
  }
  return {};
}

std::string join_path(std::string_view a, std::string_view b) {
  if (a.empty() || b.starts_with('/')) return std::string(b);
  if (b.empty()) return std::string(a);
  return fmt::format("{}{}{}", a, a.ends_with('/') ? "" : "/", b);
}

std::string_view base_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == "/") return path;
  return path.substr(path.rfind('/') + 1);
}

std::string dir_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

std::string normalize_path(std::string_view path) {
  const bool absolute = path.starts_with('/');
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !absolute) {
      parts.push_back(part);
    }
  }
  std::string out = absolute ? "/" : "";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += '/';
    out += parts[i];
  }
  return out.empty() ? "." : out;
}

}  // namespace passnet
