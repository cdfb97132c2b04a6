#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace passnet {

/// An exclusive lock on a file (flock): held until the object or the process ends, however it ends. The file
/// stays; it is made when missing and holds the process id of the last holder, for messages only.
class LockFile {
 public:
  /// Waits up to `patience` (zero: not at all). `lock.busy` names who holds it; `lock.io` is all else.
  static Result<LockFile> acquire(const std::string& path, Duration patience = Duration{0});

  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  ~LockFile();

  const std::string& path() const { return path_; }

 private:
  LockFile(int fd, std::string path);
  void release();

  int fd_ = -1;
  std::string path_;
};

}  // namespace passnet
