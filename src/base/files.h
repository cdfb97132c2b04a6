#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace passnet {

enum class FileType : std::uint8_t { kFile, kDirectory, kOther };

struct FileInfo {
  FileType type = FileType::kFile;
  bool is_link = false;  ///< the path itself is a symbolic link; `type` and `size` are those of its target
  std::uint64_t size = 0;
  double modified = 0;  ///< seconds since 1970
};

struct DirEntry {
  std::string name;
  FileInfo info;
};

/// Reading more than this at once is refused unless the caller asks for it: inputs are sources and metadata.
constexpr std::uint64_t kDefaultReadLimit = 64ull << 20;

/// The disk as the program sees it. Paths are UTF-8 with forward slashes. Every error names the path and has
/// one of these codes: `file.missing`, `file.denied`, `file.too_large`, `file.not_file`,
/// `file.not_directory`, `file.exists`, `file.loop` (symbolic links), `file.full`, `file.io`.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::string> read(const std::string& path, std::uint64_t limit = kDefaultReadLimit) = 0;

  /// Replaces the file as a whole: a temporary file beside it, fsync, rename. Missing folders are not made.
  virtual Status write(const std::string& path, std::string_view content) = 0;
  /// Appends and flushes; for logs and journals of lines.
  virtual Status append(const std::string& path, std::string_view content) = 0;

  virtual Result<FileInfo> stat(const std::string& path) = 0;
  /// Sorted by name (bytes). An entry whose link leads nowhere has type kOther.
  virtual Result<std::vector<DirEntry>> list(const std::string& path) = 0;

  /// With all parents; an existing folder is success.
  virtual Status make_directory(const std::string& path) = 0;
  /// Renames; what exists at `to` is replaced only if it is a file.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Removes a file, a link (never what it points to) or a whole folder. Nothing there is success.
  virtual Status remove_all(const std::string& path) = 0;

  /// Exchanges two folders of one file system as one step (renameat2 RENAME_EXCHANGE). Where the kernel or
  /// the file system cannot, by three renames under a journal `<a>.exchange`, which `recover_exchange` ends.
  virtual Status exchange_directories(const std::string& a, const std::string& b) = 0;
  /// Ends an exchange that was interrupted, if there is one: afterwards both folders exist. Success when
  /// there was nothing to do. To be called before `a` is read by whoever exchanges it.
  virtual Status recover_exchange(const std::string& a) = 0;

  // Shorthands over the above.
  bool exists(const std::string& path);
  bool is_file(const std::string& path);
  bool is_directory(const std::string& path);
  /// The files below `root` as relative paths, sorted; folders reached by links are not entered.
  Result<std::vector<std::string>> list_recursive(const std::string& root);
  /// Copies a tree of files and folders; links are followed for files, skipped for folders.
  Status copy_directory(const std::string& from, const std::string& to);
};

/// The real disk.
FileSystem& real_files();
/// The same, but exchanging folders by the journal always: for file systems that claim too much, and tests.
FileSystem& real_files_with_journal();

/// All in memory, for tests: the same promises as the disk, but for links, which are not modelled. `put` sets a
/// file up with the folders above it; `fail_next` makes the next operation on that path fail with the code given.
class MemoryFiles final : public FileSystem {
 public:
  MemoryFiles() = default;
  /// Path to content.
  explicit MemoryFiles(const std::map<std::string, std::string>& files);

  Result<std::string> read(const std::string& path, std::uint64_t limit = kDefaultReadLimit) override;
  Status write(const std::string& path, std::string_view content) override;
  Status append(const std::string& path, std::string_view content) override;
  Result<FileInfo> stat(const std::string& path) override;
  Result<std::vector<DirEntry>> list(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_all(const std::string& path) override;
  Status exchange_directories(const std::string& a, const std::string& b) override;
  Status recover_exchange(const std::string& a) override;

  void put(const std::string& path, std::string_view content);
  void fail_next(const std::string& path, std::string_view code);
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  Status check_failure(const std::string& path);

  std::map<std::string, std::string> files_;
  std::map<std::string, bool> directories_;
  std::map<std::string, std::string> failures_;
};

/// `a/b` from `a` and `b` with exactly one slash; an absolute `b` wins.
std::string join_path(std::string_view a, std::string_view b);
/// The last component.
std::string_view base_name(std::string_view path);
/// All before the last component; `.` when there is none, `/` for the root.
std::string dir_name(std::string_view path);
/// Without `.`, doubled slashes and `x/..` (purely by text).
std::string normalize_path(std::string_view path);

}  // namespace passnet
