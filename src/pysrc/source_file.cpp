#include "base/files.h"
#include "pysrc/parse.h"

namespace passnet::pysrc {

namespace {

std::string_view remedy(const Diagnostic& d) {
  if (!d.hint.empty()) return d.hint;
  if (d.code == "file.missing") return "Create the file, or correct the path.";
  if (d.code == "file.denied") return "Make it readable for this user (chmod u+r).";
  if (d.code == "file.too_large") return "Check what the file is; generated metadata may leave out `data`.";
  if (d.code == "file.loop") return "Replace the symbolic link by the file itself.";
  if (d.code == "file.not_file") return "Name a plain file.";
  if (d.code == "source.utf8" || d.code == "source.nul")
    return "Replace it by the Python source; this is another kind of file.";
  return "Check the file system.";
}

}  // namespace

Result<SourceBuffer> read_source(FileSystem& files, const std::string& path, std::string shown,
                                 std::size_t limit) {
  if (shown.empty()) shown = path;
  const auto complete = [&](Diagnostic d) {
    d.file = shown;
    d.hint = remedy(d);
    return d;
  };
  Result<std::string> text = files.read(path, limit);
  if (!text) return complete(std::move(text).error());
  Result<SourceBuffer> source = SourceBuffer::checked(shown, std::move(text).value());
  if (!source) return complete(std::move(source).error());
  return source;
}

}  // namespace passnet::pysrc
