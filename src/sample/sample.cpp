#include "sample/sample.h"

#include <algorithm>
#include <future>
#include <set>

#include <fmt/format.h>

#include "base/json.h"
#include "pysrc/parse.h"
#include "sample/plain_meta.h"

namespace passnet {

namespace {

constexpr std::uint64_t kMaxListBytes = 1u << 20;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

// The first of the evaluator's dtype names that is a folder of the path.
std::optional<DType> dtype_in_path(std::string_view path) {
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part == "float16" || part == "float32" || part == "bfloat16" || part == "float64")
      return parse_dtype(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return std::nullopt;
}

Diagnostic list_finding(std::string_view code, const std::string& message, const std::string& file, int line,
                        std::string_view hint) {
  return user_error(code, message).at(file, {line, 1, 0, 0}).with_hint(hint);
}

// Why a line of the list is no variant; nothing if it is one.
std::optional<Diagnostic> refuse(FileSystem& files, const Variant& v, const std::string& list) {
  const auto folder = files.stat(v.dir);
  if (!folder) {
    Diagnostic d = folder.error();
    const bool missing = d.code == "file.missing";
    return list_finding(missing ? "sample.variant_missing" : "sample.variant_unreadable",
                        missing ? fmt::format("'{}' is listed, but there is no such folder", v.label)
                                : fmt::format("'{}' cannot be read: {}", v.label, d.message),
                        list, v.line,
                        missing                 ? "Create the folder or remove the line."
                        : d.code == "file.loop" ? "Replace the loop of symbolic links by a folder."
                                                : "Make the folder readable (chmod u+rx).");
  }
  if (folder->type != FileType::kDirectory) {
    return list_finding("sample.variant_missing", fmt::format("'{}' is a file, not a folder", v.label), list,
                        v.line, "List the folder that holds model.py.");
  }
  const auto model = files.stat(v.model_path());
  if (!model && model.error().code != "file.missing") {
    return list_finding(
        "sample.variant_unreadable",
        fmt::format("the model.py of '{}' cannot be read: {}", v.label, model.error().message), list, v.line,
        "Make folder and file readable (chmod u+rx), and links lead somewhere.");
  }
  if (!model) {
    return list_finding("sample.no_model", fmt::format("'{}' has no model.py", v.label), list, v.line,
                        "Put the model.py there or remove the line.");
  }
  return std::nullopt;
}

// The tensors of input_meta.py and weight_meta.py; the latter describes all inputs and wins.
Result<std::vector<TensorSpec>> read_all_specs(std::vector<SourceBuffer>& texts) {
  std::vector<TensorSpec> out;
  for (SourceBuffer& text : texts) {
    std::vector<TensorSpec> more;
    if (std::optional<std::vector<TensorSpec>> plain = read_plain_specs(text)) {
      more = *std::move(plain);
    } else {
      PN_TRY(const pysrc::Module module, pysrc::parse_module(std::move(text)));
      PN_TRY(more, read_tensor_specs(module));
    }
    for (TensorSpec& spec : more) {
      std::erase_if(out, [&](const TensorSpec& t) { return t.name == spec.name && t.file != spec.file; });
      out.push_back(std::move(spec));
    }
  }
  return out;
}

}  // namespace

Result<Sample> read_sample(FileSystem& files, const std::string& root) {
  Sample out;
  out.root = root;
  out.name = std::string(base_name(normalize_path(root)));
  const auto folder = files.stat(root);
  if (!folder) {
    Diagnostic d = folder.error();
    if (d.code == "file.missing") {
      d.code = "sample.missing";
      d.message = "there is no such folder";
    }
    d.file = root;
    d.hint = "Name the sample's folder: the one that holds graph_list.txt.";
    return d;
  }
  const std::string list = join_path(root, "graph_list.txt");
  if (folder->type != FileType::kDirectory) {
    return user_error("sample.not_a_directory", "this is no folder")
        .at(root)
        .with_hint("Name the sample's folder: the one that holds graph_list.txt.");
  }
  Result<SourceBuffer> text = pysrc::read_source(files, list, {}, kMaxListBytes);
  if (!text) {
    Diagnostic d = std::move(text).error();
    if (d.code == "file.missing") {
      d.code = "sample.no_graph_list";
      d.message = "the sample has no graph_list.txt";
      d.hint = "Write one: the folder of one variant a line, relative to the sample (`float32/8`).";
    }
    return d;
  }
  std::set<std::string> seen;
  for (int line = 1; line <= text->line_count(); ++line) {
    const std::string_view label = trimmed(text->line(line));
    if (label.empty()) continue;
    Variant v;
    v.label = label;
    v.dir = join_path(root, label);
    v.line = line;
    v.dtype = dtype_in_path(label);
    if (!v.dtype) v.dtype = dtype_in_path(root);
    if (!seen.insert(v.label).second) {
      Diagnostic d = list_finding("sample.listed_twice", fmt::format("'{}' is listed twice", v.label), list,
                                  line, "Remove one of the lines; it would count twice.");
      d.severity = Severity::kWarning;
      out.findings.push_back(std::move(d));
      continue;
    }
    if (std::optional<Diagnostic> reason = refuse(files, v, list)) {
      out.findings.push_back(std::move(*reason));
    } else {
      out.variants.push_back(std::move(v));
    }
  }
  if (out.variants.empty()) {
    if (!out.findings.empty()) {
      Diagnostic d = out.findings.front();
      d.message = "no variant can be read: " + d.message;
      d.code = "sample.no_variants";
      return d;
    }
    return user_error("sample.no_variants", "graph_list.txt lists nothing")
        .at(list)
        .with_hint("Write the folder of one variant a line, relative to the sample (`float32/8`).");
  }
  return out;
}

Result<VariantFiles> read_variant(FileSystem& files, const std::string& dir, const std::string& name) {
  const std::string shown = name.empty() ? dir : name;
  const auto read = [&](const char* file) {
    return pysrc::read_source(files, join_path(dir, file), join_path(shown, file));
  };
  Result<SourceBuffer> model_text = read("model.py");
  if (!model_text) {
    Diagnostic d = std::move(model_text).error();
    if (d.code == "file.missing") {
      d.code = "sample.no_model";
      d.message = "there is no model.py here";
      d.hint = "Name the folder of a variant: it holds model.py and weight_meta.py.";
    }
    return d;
  }
  auto source = std::make_shared<const SourceBuffer>(std::move(model_text).value());
  bool has_metadata = true;
  std::vector<Diagnostic> findings;
  std::vector<SourceBuffer> meta_texts;
  std::size_t meta_bytes = 0;
  for (const char* file : {"input_meta.py", "weight_meta.py"}) {
    Result<SourceBuffer> text = read(file);
    if (text) {
      meta_bytes += text->text().size();
      meta_texts.push_back(std::move(text).value());
      continue;
    }
    Diagnostic d = std::move(text).error();
    if (d.code != "file.missing") return d;
    if (file[0] == 'i') continue;
    d.code = "sample.no_weight_meta";
    d.message = "there is no weight_meta.py beside model.py";
    d.hint = "Write one class for each parameter of forward, with name, shape and dtype.";
    has_metadata = false;
    findings.push_back(std::move(d));
  }
  // Of a whole network's files both take a while to parse: one on each of two threads.
  constexpr std::size_t kWorthAThread = std::size_t{48} << 10;
  const bool both = meta_bytes > kWorthAThread && source->text().size() > kWorthAThread;
  std::future<Result<std::vector<TensorSpec>>> tensors =
      std::async(both ? std::launch::async : std::launch::deferred,
                 [&meta_texts] { return read_all_specs(meta_texts); });
  Result<pysrc::Module> model = pysrc::parse_module(source);
  Result<std::vector<TensorSpec>> specs = tensors.get();
  if (!model) return std::move(model).error();
  if (!specs) return std::move(specs).error();
  return VariantFiles{std::move(source), std::move(model).value(), std::move(specs).value(), has_metadata,
                      std::move(findings)};
}

Result<Captured> capture_variant(FileSystem& files, const std::string& dir, const CaptureOptions& options) {
  PN_TRY(const VariantFiles variant, read_variant(files, dir));
  const std::vector<InputMeta> inputs = input_metas(variant.tensors);
  PN_TRY(Captured captured, capture_model(variant.model, variant.has_metadata ? &inputs : nullptr, options));
  captured.findings.insert(captured.findings.begin(), variant.findings.begin(), variant.findings.end());
  const pysrc::Stmt* model = variant.model.find_class(options.class_name);
  const pysrc::Stmt* forward = pysrc::Module::find(model->body, pysrc::StmtKind::kFunction, options.method);
  for (const TensorSpec& spec : variant.tensors) {
    const bool used = std::any_of(forward->parameters.begin(), forward->parameters.end(),
                                  [&](const pysrc::Parameter& p) { return p.name == spec.name; });
    if (used) continue;
    Diagnostic d =
        user_warning("sample.unused_meta", fmt::format("'{}' is no parameter of forward", spec.name))
            .at(spec.file, spec.span)
            .with_hint("Remove the class, or correct its name.");
    captured.findings.push_back(std::move(d));
  }
  return captured;
}

Json capture_json(FileSystem& files, const std::string& dir, const CaptureOptions& options) {
  Json out = Json::object();
  out["schema"] = "passnet.capture/1";
  Result<Captured> captured = capture_variant(files, dir, options);
  if (!captured) {
    out["status"] = "error";
    out["findings"] = findings_to_json({captured.error()});
    out["graphs"] = Json::array();
    return out;
  }
  const bool red = std::any_of(captured->findings.begin(), captured->findings.end(),
                               [](const Diagnostic& d) { return d.severity == Severity::kError; });
  out["status"] = red ? "red" : "green";
  out["findings"] = findings_to_json(captured->findings);
  out["graphs"] = Json::array();
  for (std::size_t g = 0; g < captured->graphs.size(); ++g) out["graphs"].push_back(graph_json(*captured, g));
  return out;
}

}  // namespace passnet
