#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pysrc/ast.h"

namespace passnet {

// Which local names a function reads again after a place in it: what Python's bytecode says of straight lines. Inside
// loops and branches nothing counts as overwritten, so more names may live than the bytecode would tell.
class Liveness {
 public:
  explicit Liveness(const std::vector<const pysrc::Stmt*>& body);

  // Whether `name` is read before it is assigned again, from the end of `at` on, which lies in body[statement].
  bool is_read_after(std::string_view name, std::size_t statement, const Span& at) const;

 private:
  struct Access {
    std::size_t statement = 0;
    bool read = true;
    Span span;  // of a read
  };

  void add_statement(const pysrc::Stmt& s, bool nested);
  void add_expression(const pysrc::Expr* e);
  void add_target(const pysrc::Expr& e, bool nested);
  void add(const std::string& name, bool read, const Span& span);

  std::size_t statement_ = 0;
  std::unordered_map<std::string, std::vector<Access>> accesses_;  // in order of evaluation
};

}  // namespace passnet
