#pragma once

#include <string_view>

namespace passnet {

/// A file of the source tree that was compiled into the program (cmake/EmbedFiles.cmake).
struct EmbeddedFile {
  std::string_view path;  ///< relative, with forward slashes
  std::string_view content;
};

}  // namespace passnet
