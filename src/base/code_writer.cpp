#include "base/code_writer.h"

#include <algorithm>
#include <cstddef>

namespace passnet {

CodeWriter& CodeWriter::line(std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view one = text.substr(0, end);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\t')) one.remove_suffix(1);
    if (!one.empty()) {
      text_.append(static_cast<std::size_t>(level_ * indent_width_), ' ');
      text_ += one;
    }
    text_ += '\n';
    if (end == std::string_view::npos) return *this;
    text.remove_prefix(end + 1);
    if (text.empty()) return *this;
  }
}

CodeWriter& CodeWriter::blank(int count) {
  if (text_.empty()) return *this;
  int present = 0;
  for (std::size_t i = text_.size(); i-- > 1 && text_[i] == '\n' && text_[i - 1] == '\n';) ++present;
  for (; present < count; ++present) text_ += '\n';
  return *this;
}

CodeWriter& CodeWriter::indent(int levels) {
  level_ += levels;
  return *this;
}

CodeWriter& CodeWriter::dedent(int levels) {
  level_ = std::max(0, level_ - levels);
  return *this;
}

CodeWriter::Block::~Block() {
  if (writer_ == nullptr) return;
  writer_->dedent();
  if (!tail_.empty()) writer_->line(tail_);
}

CodeWriter::Block CodeWriter::block(std::string_view head, std::string_view tail) {
  line(head);
  indent();
  return Block(*this, std::string(tail));
}

}  // namespace passnet
