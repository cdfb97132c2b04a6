#pragma once

#include <string>

#include "base/result.h"
#include "pysrc/ast.h"
#include "pysrc/tree.h"

namespace passnet {
class FileSystem;
}

namespace passnet::pysrc {

// Parses a file into its typed view. Errors: those of SyntaxTree::parse, and "pysrc.depth".
Result<Module> parse_module(std::shared_ptr<const SourceBuffer> source);
Result<Module> parse_module(SourceBuffer source);
Result<Module> to_module(const SyntaxTree& tree);

// Reads a file of source text. Errors: those of FileSystem::read and SourceBuffer::checked, with file and remedy.
// `shown` is the name for messages, the path itself if empty.
Result<SourceBuffer> read_source(FileSystem& files, const std::string& path, std::string shown = {},
                                 std::size_t limit = kMaxSourceBytes);

}  // namespace passnet::pysrc
