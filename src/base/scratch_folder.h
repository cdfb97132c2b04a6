#pragma once

#include <string>

#include "base/files.h"

namespace passnet {

/// A new folder below the temporary one, gone with all that is in it when this is; read-only folders in it are no
/// obstacle. TMPDIR says where.
class ScratchFolder {
 public:
  /// `prefix`: what its name begins with.
  ScratchFolder(FileSystem& files, const std::string& prefix);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  /// Empty if none could be made.
  const std::string& path() const { return path_; }

 private:
  FileSystem& files_;
  std::string path_;
};

}  // namespace passnet
