#include "check/check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/strings.h"
#include "check/manifest.h"
#include "check/public_rules.h"
#include "check/red_lines.h"
#include "check/rules.h"
#include "check/strict_rules.h"
#include "check/wrapper_judge.h"
#include "match/rewrite.h"
#include "pysrc/parse.h"

namespace passnet::check {

namespace {

struct ParsedFile {
  std::string name;
  std::string stem;
  bool listed = false;
  bool input = false;
  pysrc::SyntaxTree tree;
  pysrc::Module module;
};

std::string stem_of(const std::string& name) { return name.substr(0, name.size() - 3); }

// Which near miss stands for which hard rule.
std::string_view rule_of(const NearMiss& miss) {
  if (miss.code == "literal" || miss.code == "literal_type") return "match.literal";
  if (miss.code == "not_contained") return "match.containment";
  return "match.call_form";
}

class Checker {
 public:
  Checker(const std::map<std::string, std::string>& files, const std::vector<Variant>& variants,
          const CheckOptions& options)
      : files_(files), variants_(variants), options_(options) {}

  CheckReport run() {
    parsed_.reserve(files_.size() + options_.const_files.size());
    check_files();
    Manifest manifest = read_manifest(files_, options_.const_files);
    take(std::move(manifest.findings));
    for (const Listed& listed : manifest.order) report_.order.push_back(listed.stem);
    parse(manifest.order);
    check_helpers();
    check_sources();
    for (const ParsedFile& file : parsed_) modules_.emplace(file.stem, &file.module);
    check_imported_names();
    read_passes(manifest.order);
    check_functions();
    for (const Variant& variant : variants_) check_variant(variant);
    check_wrappers_by_text();
    check_unmatched_passes();
    judge();
    return std::move(report_);
  }

 private:
  // Equal findings of several variants become one that names them.
  void add(Diagnostic d, const std::string& variant = {}) {
    if (!d.file.empty()) d.file = options_.file_prefix + d.file;
    for (Diagnostic& known : report_.findings) {
      if (known.code != d.code || known.message != d.message || known.file != d.file ||
          !(known.span == d.span))
        continue;
      if (!variant.empty()) {
        std::string& names = known.fields["variants"];
        if ((", " + names + ", ").find(", " + variant + ", ") == std::string::npos) names += ", " + variant;
      }
      return;
    }
    if (!variant.empty()) d.fields["variants"] = variant;
    report_.findings.push_back(std::move(d));
  }
  void take(std::vector<Diagnostic> found) {
    for (Diagnostic& d : found) add(std::move(d));
  }

  void check_files() {
    for (const auto& [name, text] : files_) {
      if (name.find("__pycache__") != std::string::npos) {
        add(broken("files.cache", "a left-over __pycache__ is not what runs").at(name));
      } else if (name.find('/') != std::string::npos) {
        add(broken("files.folder", fmt::format("{} lies in a folder of the pass_dir", name)).at(name));
      } else if (!name.ends_with(".py") && !name.ends_with(".json") && !name.starts_with(".")) {
        add(broken("files.kind", fmt::format("{} is neither Python nor JSON", name)).at(name));
      }
    }
  }

  void parse(const std::vector<Listed>& order) {
    for (const Listed& listed : order) {
      const FileTexts& from = listed.input ? options_.const_files : files_;
      parse_file(listed.stem + ".py", from.at(listed.stem + ".py"), true, listed.input);
    }
    for (const auto& [name, text] : files_) {
      if (!name.ends_with(".py") || name.find('/') != std::string::npos) continue;
      const std::string stem = stem_of(name);
      const bool known = std::any_of(order.begin(), order.end(),
                                     [&](const Listed& l) { return l.stem == stem && !l.input; });
      if (!known) parse_file(name, text, false, false);
    }
  }

  void parse_file(const std::string& name, const std::string& text, bool listed, bool input) {
    Result<SourceBuffer> source = SourceBuffer::checked(name, text);
    if (!source.ok())
      return add(broken("source.syntax", source.error().message).at(name, source.error().span));
    Result<pysrc::SyntaxTree> tree =
        pysrc::SyntaxTree::parse(std::make_shared<SourceBuffer>(std::move(source).value()));
    if (!tree.ok()) return add(broken("source.syntax", tree.error().message).at(name, tree.error().span));
    Result<pysrc::Module> module = pysrc::to_module(*tree);
    if (!module.ok())
      return add(broken("source.syntax", module.error().message).at(name, module.error().span));
    parsed_.push_back(
        {name, stem_of(name), listed, input, std::move(tree).value(), std::move(module).value()});
  }

  const ParsedFile* parsed(const std::string& stem) const {
    for (const ParsedFile& file : parsed_) {
      if (file.stem == stem) return &file;
    }
    return nullptr;
  }

  static void collect_imports(const std::vector<const pysrc::Stmt*>& body, std::set<std::string>& stems) {
    for (const pysrc::Stmt* s : body) {
      const auto note = [&](std::string_view dotted) {
        if (!dotted.starts_with("pass_dir.")) return;
        dotted.remove_prefix(9);
        stems.insert(std::string(dotted.substr(0, dotted.find('.'))));
      };
      if (s->kind == pysrc::StmtKind::kImport) {
        for (const pysrc::ImportedName& name : s->names) note(name.name);
      } else if (s->kind == pysrc::StmtKind::kImportFrom) {
        note(s->text);
        if (s->text == "pass_dir") {
          for (const pysrc::ImportedName& name : s->names) stems.insert(name.name);
        }
      }
      collect_imports(s->body, stems);
      collect_imports(s->orelse, stems);
    }
  }

  // Files that start with an underscore count as helpers if what is listed imports them, directly or not.
  void check_helpers() {
    std::set<std::string> wanted;
    std::vector<std::string> queue;
    for (const ParsedFile& file : parsed_) {
      if (file.listed) queue.push_back(file.stem);
    }
    while (!queue.empty()) {
      const ParsedFile* file = parsed(queue.back());
      queue.pop_back();
      if (file == nullptr) continue;
      std::set<std::string> stems;
      collect_imports(file->module.body(), stems);
      for (const std::string& stem : stems) {
        if (!wanted.insert(stem).second) continue;
        queue.push_back(stem);
        if (!files_.contains(stem + ".py")) {
          add(broken("files.import",
                     fmt::format("{} imports pass_dir.{}, which does not exist", file->name, stem))
                  .at(file->name));
        }
      }
    }
    for (const ParsedFile& file : parsed_) {
      if (file.listed || !file.name.starts_with("_") || wanted.contains(file.stem)) continue;
      add(broken("files.unused_helper", fmt::format("no listed pass imports {}", file.name)).at(file.name));
    }
  }

  // Names that `from pass_dir.x import name` asks for, where what x binds can be seen.
  void check_imported_names() {
    for (const ParsedFile& file : parsed_) {
      for (const pysrc::Stmt* s : file.module.body()) {
        if (s->kind != pysrc::StmtKind::kImportFrom || !s->text.starts_with("pass_dir.")) continue;
        const auto at = modules_.find(s->text.substr(9));
        if (at == modules_.end()) continue;
        const std::optional<std::set<std::string>> bound = bound_names(*at->second);
        if (!bound) continue;
        for (const pysrc::ImportedName& name : s->names) {
          if (name.name == "*" || bound->contains(name.name)) continue;
          const std::vector<std::string> names(bound->begin(), bound->end());
          const auto meant = closest(name.name, names);
          Diagnostic d = broken("files.name", fmt::format("{} defines no {}", s->text, name.name))
                             .at(file.name, s->span);
          if (meant) d.hint = fmt::format("import {}", *meant);
          add(std::move(d));
        }
      }
    }
  }

  // What a module binds at its top level; nothing where that cannot be seen.
  static std::optional<std::set<std::string>> bound_names(const pysrc::Module& module) {
    std::set<std::string> out;
    for (const pysrc::Stmt* s : module.body()) {
      using K = pysrc::StmtKind;
      if (s->kind == K::kFunction || s->kind == K::kClass) out.insert(s->text);
      if (s->kind == K::kIf || s->kind == K::kFor || s->kind == K::kUnsupported) return std::nullopt;
      for (const pysrc::ImportedName& name : s->names) {
        if (name.name == "*") return std::nullopt;
        out.insert(!name.alias.empty() ? name.alias : name.name.substr(0, name.name.find('.')));
      }
      if (s->kind != K::kAssign && s->kind != K::kAnnotation && s->kind != K::kAugAssign) continue;
      std::vector<const pysrc::Expr*> targets(s->exprs.begin(), s->exprs.end());
      while (!targets.empty()) {
        const pysrc::Expr* target = targets.back();
        targets.pop_back();
        if (target->kind == pysrc::ExprKind::kName) out.insert(target->text);
        targets.insert(targets.end(), target->items.begin(), target->items.end());
      }
    }
    return out;
  }

  void check_sources() {
    for (const ParsedFile& file : parsed_) {
      // The public rules look at listed files only; a helper that breaks them is told, not rejected.
      for (Diagnostic& d : public_violations(file.tree)) {
        Diagnostic own = broken(d.code, d.message).at(file.name, d.span);
        own.hint = d.hint;
        if (file.listed) {
          rejected_.insert(file.stem);
          report_.rejected[file.stem].push_back(d.message);
        } else {
          own.severity = Severity::kWarning;
        }
        add(std::move(own));
      }
      take(red_lines(file.tree));
      if (options_.rules == SourceRules::kStrict) {
        std::vector<Diagnostic> found = strict_violations(file.tree);
        for (const Diagnostic& d : found) {
          if (d.severity != Severity::kError) continue;
          rejected_.insert(file.stem);
          report_.rejected[file.stem].push_back(d.message);
        }
        take(std::move(found));
      }
    }
  }

  // What computes outside of kernels by the look of it, in code that no match was seen to run.
  void check_wrappers_by_text() {
    for (const ParsedFile& file : parsed_) {
      for (Diagnostic& d : wrapper_findings(file.tree)) {
        if (!visited_.contains({file.name, d.span.line, d.span.col})) add(std::move(d));
      }
    }
  }

  void read_passes(const std::vector<Listed>& order) {
    size_t readable = 0;
    for (const Listed& listed : order) {
      const ParsedFile* file = parsed(listed.stem);
      if (file == nullptr) continue;
      report_.passes.push_back(read_pass(listed.stem, file->module));
      if (const auto run = options_.run_elsewhere.find(listed.stem);
          run != options_.run_elsewhere.end() && !report_.passes.back().readable) {
        take_over(report_.passes.back(), *run->second);
      }
      for (const Diagnostic& d : report_.passes.back().findings) add(d);
      readable += report_.passes.back().readable ? 1 : 0;
    }
    if (report_.passes.size() > options_.pattern_limit) {
      add(broken("manifest.limit", fmt::format("{} passes are listed, {} are loaded", report_.passes.size(),
                                               options_.pattern_limit))
              .at(kOutputManifest));
    }
  }

  // What the worker found by running the file takes the place of what was not interpreted.
  static void take_over(ReadPass& mine, const ReadPass& run) {
    mine.form = run.form;
    mine.pattern = run.pattern.clone();
    mine.parameters = run.parameters;
    mine.rule.parameters = run.rule.parameters;
    mine.rule.arguments = run.rule.arguments;
    mine.readable = run.readable;
    mine.run_elsewhere = true;
    std::erase_if(mine.findings, [](const Diagnostic& d) { return d.code == "check.not_interpreted"; });
    mine.findings.insert(mine.findings.end(), run.findings.begin(), run.findings.end());
  }

  void check_functions() {
    std::vector<std::string> functions;
    for (const ReadPass& pass : report_.passes) {
      if (!pass.function.empty() &&
          std::find(functions.begin(), functions.end(), pass.function) == functions.end()) {
        functions.push_back(pass.function);
      }
    }
    if (functions.size() <= options_.replacement_func_limit) return;
    add(broken("func.several", fmt::format("the passes use {} replacement functions: {}", functions.size(),
                                           fmt::join(functions, ", ")))
            .at(kOutputManifest));
  }

  void check_variant(const Variant& variant) {
    VariantReport out;
    out.name = variant.name;
    for (size_t i = 0; i < variant.graphs.size(); ++i) {
      out.graphs.push_back(check_graph(variant.name, variant.graphs[i]));
      if (out.graphs.back().matched) continue;
      const std::string where = variant.graphs.size() == 1 ? "" : fmt::format("graph {} of ", i);
      Diagnostic d = broken("match.variant",
                            fmt::format("no pass matches in {}this variant: it would score 0.1", where));
      if (unread()) d.severity = Severity::kWarning;
      add(std::move(d), variant.name);
    }
    if (variant.graphs.empty()) {
      add(broken("match.no_graph", "the variant computes nothing that could be replaced"), variant.name);
    }
    report_.variants.push_back(std::move(out));
  }

  GraphReport check_graph(const std::string& variant, const Graph& graph) {
    GraphReport out;
    out.rewritten = graph.clone();
    for (const ReadPass& pass : report_.passes) {
      if (!pass.readable || rejected_.contains(pass.name)) continue;
      PassMatches entry;
      entry.pass = pass.name;
      entry.near_misses = Json::array();
      const std::vector<Call> calls = follow_calls(pass, out.rewritten);
      RewriteRule rule = pass.rule;
      rule.returns_argument = !calls.empty() && std::all_of(calls.begin(), calls.end(), [](const Call& call) {
        return call.returns_argument;
      });
      Result<PassResult> result = apply_pass(out.rewritten, pass.pattern, rule);
      if (!result.ok()) {
        add(broken("match.crash", fmt::format("the rewrite fails: {}", result.error().message))
                .at(pass.name + ".py")
                .with("reason", result.error().code),
            variant);
        out.passes.push_back(std::move(entry));
        continue;
      }
      if (result->replaced.empty()) {
        for (const NearMiss& miss : near_misses(pass.pattern, out.rewritten, options_.near_misses)) {
          if (entry.near_misses.empty()) note_miss(pass, miss, out.rewritten);
          entry.near_misses.push_back(to_json(miss, pass.pattern, out.rewritten));
        }
      }
      for (size_t i = 0; i < result->replaced.size(); ++i) {
        Replaced& replaced = result->replaced[i];
        const std::string returned = out.rewritten.node(replaced.match.returned).name;
        WrapperJudgement judged =
            judge_wrapper(pass.name, returned, result->graph, replaced, calls[i].arguments, calls[i].run);
        for (Diagnostic& d : judged.findings) add(std::move(d), variant);
        entry.matches.push_back(describe_match(pass, replaced, out.rewritten));
        entry.matches.back().wrapper_followed = calls[i].run.followed;
        entry.matches.back().wrapper_stopped = calls[i].run.stopped;
        check_legality(pass, entry.matches.back(), judged, variant);
      }
      if (!entry.matches.empty()) {
        out.matched = true;
        matched_.insert(pass.name);
        out.rewritten = std::move(result->graph);
      }
      out.passes.push_back(std::move(entry));
    }
    return out;
  }

  // What the wrapper does at each match of a pass, in torch's order of matches.
  struct Call {
    std::vector<WrapperArgument> arguments;
    WrapperRun run;
    bool returns_argument = false;
  };
  std::vector<Call> follow_calls(const ReadPass& pass, const Graph& graph) {
    std::vector<Call> out;
    const Result<std::vector<Match>> matches = find_matches(pass.pattern, graph);
    if (!matches.ok()) return out;
    for (const Match& match : *matches) {
      Call& call = out.emplace_back();
      call.arguments = arguments_at(graph, pass.rule, pass.parameters, match.placeholder_bindings);
      if (pass.function.empty() || match.returned == kNoNode) continue;
      call.run = follow_wrapper(modules_, pass.function, call.arguments, visited_);
      call.returns_argument =
          returns_argument_as_eager(call.run, call.arguments, graph.node(match.returned).meta);
    }
    return out;
  }

  static MatchReport describe_match(const ReadPass& pass, Replaced& replaced, const Graph& graph) {
    MatchReport out;
    out.pass = pass.name;
    for (const NodeId id : replaced.covered) out.nodes.push_back(graph.node(id).name);
    out.returned = graph.node(replaced.match.returned).name;
    for (const Value& v : replaced.match.placeholder_bindings) {
      out.bindings.push_back(python_text(v, [&](NodeId id) { return graph.node(id).name; }));
    }
    out.legality = std::move(replaced.legality);
    return out;
  }

  void check_legality(const ReadPass& pass, const MatchReport& match, const WrapperJudgement& judged,
                      const std::string& variant) {
    const auto report = [&](const Refusal& refusal, bool unproven) {
      Diagnostic d = broken(refusal.code, fmt::format("{}: {}", pass.name, refusal.message))
                         .at(pass.name + ".py")
                         .with("nodes", fmt::format("{}", fmt::join(refusal.nodes, ", ")));
      if (unproven) d.severity = Severity::kWarning;
      add(std::move(d), variant);
    };
    // The pattern's own rules say what is inside; here only what the place of the call makes of it counts.
    for (const Refusal& refusal : match.legality.verdict.refusals()) {
      if (refusal.code == "region.read_clobbered" || refusal.code == "region.write_observed")
        report(refusal, false);
      if (refusal.code == "region.alias_broken" && !match.wrapper_followed) report(refusal, true);
    }
    for (const Refusal& refusal : match.legality.notes) {
      if (refusal.code != "region.must_write") report(refusal, false);
      if (refusal.code == "region.must_write" && !judged.writes_settled) report(refusal, true);
    }
  }

  void note_miss(const ReadPass& pass, const NearMiss& miss, const Graph& graph) {
    if (!report_.repairs.contains(pass.name)) {
      if (std::optional<Repair> repair = repair_pattern(pass, graph))
        report_.repairs.emplace(pass.name, std::move(*repair));
    }
    const auto at = nearest_.find(pass.name);
    if (at != nearest_.end() && at->second.matched >= miss.matched) return;
    std::string text = describe(miss, pass.pattern, graph), model;
    if (miss.target_node != kNoNode && graph.node(miss.target_node).span.known() && !graph.file.empty()) {
      model = fmt::format("{}:{}", graph.file, graph.node(miss.target_node).span.line);
      text += fmt::format(", line {} of {}", graph.node(miss.target_node).span.line,
                          graph.file.substr(graph.file.rfind('/') + 1));
    }
    nearest_[pass.name] = {miss.matched,
                           std::string(rule_of(miss)),
                           std::move(text),
                           miss.pattern_node == kNoNode ? Span() : pass.pattern.node(miss.pattern_node).span,
                           edit_for(miss, pass, graph),
                           std::move(model)};
  }

  void check_unmatched_passes() {
    if (variants_.empty()) return;
    std::erase_if(report_.repairs, [&](const auto& entry) { return matched_.contains(entry.first); });
    for (const ReadPass& pass : report_.passes) {
      if (!pass.readable || rejected_.contains(pass.name) || matched_.contains(pass.name)) continue;
      const auto miss = nearest_.find(pass.name);
      if (miss == nearest_.end()) {
        add(broken("match.call_form", fmt::format("{} matches in no variant", pass.name))
                .at(pass.name + ".py"));
      } else {
        Diagnostic d = broken(miss->second.rule, fmt::format("{} matches in no variant; nearest: {}",
                                                             pass.name, miss->second.text))
                           .at(pass.name + ".py", miss->second.span);
        if (!miss->second.edit.empty()) d.hint = miss->second.edit;
        if (!miss->second.model.empty()) d.fields["model"] = miss->second.model;
        add(std::move(d));
      }
    }
  }

  bool unread() const {
    return std::any_of(report_.passes.begin(), report_.passes.end(),
                       [](const ReadPass& pass) { return !pass.readable; });
  }

  void judge() {
    const auto is_source = [](const Diagnostic& d) {
      return d.code.starts_with("source.") || d.code.starts_with("strict.") ||
             d.code.starts_with("red_line.");
    };
    bool source_red = false, structure_red = false, open = report_.passes.empty();
    for (const Diagnostic& d : report_.findings) {
      if (d.severity == Severity::kError) (is_source(d) ? source_red : structure_red) = true;
      if (d.code == "check.not_interpreted") open = true;
    }
    const auto proof = [](bool red, bool unproven) {
      return red ? Proof::kRed : unproven ? Proof::kNotProven : Proof::kGreen;
    };
    const Proof structure = proof(structure_red || source_red, open || variants_.empty());
    report_.subjects = {{"structure", structure, structure == Proof::kNotProven ? "" : "native"},
                        {"source", proof(source_red, false), "native"},
                        {"poison", Proof::kNotProven, ""},
                        {"numerics", Proof::kNotProven, ""},
                        {"speed", Proof::kNotProven, ""}};
  }

  struct Nearest {
    int matched = 0;
    std::string rule, text;
    Span span;
    std::string edit, model;
  };

  const std::map<std::string, std::string>& files_;
  const std::vector<Variant>& variants_;
  const CheckOptions& options_;
  std::vector<ParsedFile> parsed_;
  ModuleTable modules_;  // by stem, into parsed_
  VisitedCalls visited_;
  std::set<std::string> rejected_;  // stems that the source rules keep from being loaded
  std::set<std::string> matched_;
  std::map<std::string, Nearest> nearest_;
  CheckReport report_;
};

}  // namespace

bool VariantReport::matched() const {
  return !graphs.empty() &&
         std::all_of(graphs.begin(), graphs.end(), [](const GraphReport& g) { return g.matched; });
}

bool CheckReport::green() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Diagnostic& d) { return d.severity == Severity::kError; }) &&
         std::all_of(variants.begin(), variants.end(), [](const VariantReport& v) { return v.matched(); });
}

const Subject& CheckReport::subject(std::string_view name) const {
  return *std::find_if(subjects.begin(), subjects.end(), [&](const Subject& s) { return s.name == name; });
}

CheckReport check_pass_dir(const std::map<std::string, std::string>& files,
                           const std::vector<Variant>& variants, const CheckOptions& options) {
  return Checker(files, variants, options).run();
}

}  // namespace passnet::check
