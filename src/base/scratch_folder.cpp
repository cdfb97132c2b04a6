#include "base/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

namespace passnet {

ScratchFolder::ScratchFolder(FileSystem& files, const std::string& prefix) : files_(files) {
  std::string pattern = (std::filesystem::temp_directory_path() / (prefix + "XXXXXX")).string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  // Removing what a read-only folder holds needs the right back.
  for (auto it = std::filesystem::recursive_directory_iterator(path_, ignored);
       !ignored && it != std::filesystem::recursive_directory_iterator(); it.increment(ignored)) {
    if (it->is_directory(ignored))
      std::filesystem::permissions(it->path(), std::filesystem::perms::owner_all, ignored);
  }
  (void)files_.remove_all(path_).ok();
}

}  // namespace passnet
