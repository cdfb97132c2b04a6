#include "base/lock_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/strings.h"

namespace passnet {

LockFile::LockFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

LockFile::LockFile(LockFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  if (this != &other) {
    release();
    fd_ = std::exchange(other.fd_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

LockFile::~LockFile() { release(); }

void LockFile::release() {
  if (fd_ >= 0) ::close(fd_);  // closing the last descriptor gives the lock back
  fd_ = -1;
}

Result<LockFile> LockFile::acquire(const std::string& path, Duration patience) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    return user_error("lock.io", fmt::format("cannot open the lock {}: {}", path, std::strerror(errno)))
        .at(path);
  }
  LockFile lock(fd, path);
  SystemClock clock;
  const Duration deadline = clock.monotonic() + patience;
  // flock has no time limit of its own; a signal would disturb the host program, so it is asked now and then.
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return user_error("lock.io", fmt::format("cannot lock {}: {}", path, std::strerror(errno))).at(path);
    }
    if (clock.monotonic() >= deadline) {
      char text[32] = {};
      const ssize_t got = ::pread(fd, text, sizeof text - 1, 0);
      const std::string holder(trim(std::string_view(text, got > 0 ? static_cast<std::size_t>(got) : 0)));
      return user_error("lock.busy", fmt::format("{} is locked by {}", path,
                                                 holder.empty() ? "another process" : "process " + holder))
          .at(path)
          .with_hint("wait until the other run has ended, or end it");
    }
    clock.sleep(std::chrono::milliseconds(10));
  }
  const std::string id = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, id.data(), id.size(), 0);
  return lock;
}

}  // namespace passnet
