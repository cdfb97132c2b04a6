#pragma once

#include <cstring>
#include <string>

#include "pysrc/ast.h"

// All of a module with every place, for tests that hold two readings of one text against each other.

namespace passnet::pysrc {

class ModuleDump {
 public:
  static std::string of(const Module& module) {
    ModuleDump dump;
    dump.list(module.body());
    return std::move(dump.out_);
  }

 private:
  void number(long long n) { (out_ += std::to_string(n)) += ' '; }
  void text(const std::string& s) { ((number(static_cast<long long>(s.size())), out_) += s) += ' '; }
  void place(const Span& s) {
    for (const int n : {s.line, s.col, s.end_line, s.end_col}) number(n);
  }

  template <class Node>
  void list(const std::vector<const Node*>& all) {
    out_ += '[';
    for (const Node* one : all) node(one);
    out_ += "]\n";
  }

  void node(const Expr* e) {
    if (e == nullptr) {
      out_ += "null ";
      return;
    }
    ((out_ += '(') += describe(*e)) += ' ';
    number(static_cast<int>(e->kind));
    place(e->span);
    text(e->text);
    number(e->overflow);
    number(e->integer);
    long long bits = 0;
    std::memcpy(&bits, &e->real, sizeof bits);
    number(bits);
    node(e->value);
    list(e->items);
    for (const std::string& o : e->ops) text(o);
    for (const Keyword& k : e->keywords) {
      text(k.name);
      place(k.span);
      node(k.value);
    }
    out_ += ')';
  }

  void node(const Stmt* s) {
    ((out_ += '{') += describe(*s)) += ' ';
    number(static_cast<int>(s->kind));
    number(s->is_async);
    place(s->span);
    text(s->text);
    text(s->op);
    for (const ImportedName& n : s->names) text(n.name), text(n.alias);
    for (const Parameter& p : s->parameters) {
      number(static_cast<int>(p.kind));
      number(p.keyword_only);
      text(p.name);
      place(p.span);
      node(p.annotation);
      node(p.default_value);
    }
    list(s->exprs);
    list(s->decorators);
    node(s->value);
    node(s->annotation);
    list(s->body);
    list(s->orelse);
    out_ += "}\n";
  }

  std::string out_;
};

}  // namespace passnet::pysrc
