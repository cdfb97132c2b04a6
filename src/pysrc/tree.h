#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/source.h"

extern "C" {
struct TSTree;
struct TSNode;
}

namespace passnet::pysrc {

// Limits of what is read; all of them end in a diagnostic.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{64} << 20;
// Nesting of expressions and blocks. CPython's own parser stops at 200 brackets and some 1,000 operators.
inline constexpr int kMaxDepth = 900;

// The concrete syntax tree of one file. Rules that look at all of a file's tokens walk it with tree-sitter's own
// interface (root()); whoever interprets code takes the typed view (parse.h) instead.
class SyntaxTree {
 public:
  // Errors: "pysrc.too_large", "pysrc.syntax" (the first place that does not parse), "pysrc.timeout".
  static Result<SyntaxTree> parse(std::shared_ptr<const SourceBuffer> source);

  const TSTree* get() const { return tree_.get(); }
  const SourceBuffer& source() const { return *source_; }
  const std::shared_ptr<const SourceBuffer>& shared_source() const { return source_; }

 private:
  struct Free {
    void operator()(TSTree* tree) const;
  };
  SyntaxTree(std::shared_ptr<const SourceBuffer> source, TSTree* tree)
      : source_(std::move(source)), tree_(tree) {}

  std::shared_ptr<const SourceBuffer> source_;
  std::unique_ptr<TSTree, Free> tree_;
};

}  // namespace passnet::pysrc
