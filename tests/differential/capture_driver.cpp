// Native capture in the canonical text of canonical_graphs.py. Reads lines "<device> <folder of a model>" and answers,
// for each, "= <folder> ok|error <milliseconds>", the lines of its graphs, and "! <finding>" for what was noticed.
//
//   capture_driver [--jobs N] [--quiet]        --quiet leaves out the graphs: for taking times

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "sample/sample.h"

namespace passnet {
namespace {

// Like contiguous_strides, for axes of any length.
std::vector<int64_t> full_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> out(shape.size());
  int64_t product = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    out[i] = product;
    product *= std::max<int64_t>(shape[i], 1);
  }
  return out;
}

class Canonical {
 public:
  Canonical(const Captured& captured, const std::vector<std::string>& parameters) : captured_(captured) {
    for (std::size_t i = 0; i < parameters.size(); ++i) numbers_.emplace(parameters[i], static_cast<int>(i));
  }

  std::string text() {
    std::string out;
    for (std::size_t g = 0; g < captured_.graphs.size(); ++g) {
      out += "graph\n";
      add_graph(g, out);
    }
    return out;
  }

 private:
  void add_graph(std::size_t g, std::string& out) {
    const Graph& graph = captured_.graphs[g];
    identity_.assign(graph.size(), {});
    compute_.assign(graph.size(), -1);
    first_.clear();
    last_ = -1;
    position_ = 0;
    auto& names = names_.emplace_back();
    // Of inputs that share memory the first counts: parameters, then values of earlier graphs, then others.
    std::vector<std::tuple<int, int, int, NodeId>> inputs;
    for (const auto& node : graph.nodes()) {
      if (node->op != NodeOp::kPlaceholder) continue;
      std::string& text = identity_[static_cast<std::size_t>(node->id)];
      text = identity(g, *node);
      int of = 0, at = 0;
      if (text.empty()) {
        inputs.emplace_back(0, numbers_.at(node->target), 0, node->id);
      } else if (std::sscanf(text.c_str(), "&%d.%d", &of, &at) == 2) {
        inputs.emplace_back(1, of, at, node->id);
      } else {
        inputs.emplace_back(2, 0, 0, node->id);
      }
    }
    std::sort(inputs.begin(), inputs.end());
    for (const auto& [kind, of, at, id] : inputs) {
      const Meta& meta = graph.node(id).meta;
      if (meta.is_tensor() && meta.tensor.storage >= 0) first_.emplace(meta.tensor.storage, id);
    }
    for (const auto& node : graph.nodes()) {
      const std::size_t id = static_cast<std::size_t>(node->id);
      if (node->op == NodeOp::kPlaceholder) continue;
      if (node->op == NodeOp::kOutput) {
        out += "return ";
        bool more = false;
        for (const Value& v : node->args.at(0).items()) {
          if (more) out += ", ";
          more = true;
          out += argument(v);
        }
        out += "\n";
      } else {
        add_node(*node, out);
        names.emplace(node->name, position_);
        compute_[id] = position_++;
      }
    }
  }

  void add_node(const Node& node, std::string& out) {
    if (node.op == NodeOp::kCallMethod) out += ".";
    out += node.target + "(";
    for (std::size_t i = 0; i < node.args.size(); ++i) out += (i ? ", " : "") + argument(node.args[i]);
    std::vector<const std::pair<std::string, Value>*> kwargs;
    for (const auto& pair : node.kwargs) kwargs.push_back(&pair);
    std::sort(kwargs.begin(), kwargs.end(), [](auto* a, auto* b) { return a->first < b->first; });
    for (std::size_t i = 0; i < kwargs.size(); ++i) {
      out += (i ? ", " : "; ") + kwargs[i]->first + "=" + argument(kwargs[i]->second);
    }
    out += ") | " + meta_text(node.meta, node.id);
    std::vector<StorageId> writes = node.writes;
    std::sort(writes.begin(), writes.end());
    writes.erase(std::unique(writes.begin(), writes.end()), writes.end());
    for (const StorageId w : writes) {
      if (const auto it = first_.find(w); it != first_.end()) out += " !" + reference(it->second);
    }
    out += "\n";
  }

  std::string identity(std::size_t g, const Node& node) const {
    if (g < captured_.origins.size()) {
      if (const auto it = captured_.origins[g].find(node.name); it != captured_.origins[g].end()) {
        if (it->second.graph < 0) return "&?";
        const auto& names = names_.at(static_cast<std::size_t>(it->second.graph));
        const auto at = names.find(it->second.node);
        return fmt::format("&{}.{}", it->second.graph, at == names.end() ? -1 : at->second);
      }
    }
    return {};
  }

  std::string reference(NodeId id) {
    if (compute_[static_cast<std::size_t>(id)] >= 0)
      return fmt::format("%{}", position_ - compute_[static_cast<std::size_t>(id)]);
    if (!identity_[static_cast<std::size_t>(id)].empty()) return identity_[static_cast<std::size_t>(id)];
    const Node& node = captured_.graphs[names_.size() - 1].node(id);
    if (node.op != NodeOp::kPlaceholder) return "%0";
    const int number = numbers_.at(node.target);
    std::string out = fmt::format("${:+}", number - last_);
    last_ = number;
    return out;
  }

  std::string argument(const Value& v) {
    const auto joined = [&](std::string_view separator_after) {
      std::string out;
      for (std::size_t i = 0; i < v.items().size(); ++i) {
        if (i) out += " ";
        out += argument(v.items()[i]);
        if (i + 1 < v.items().size() || separator_after == ",") out += ",";
      }
      return out;
    };
    switch (v.kind()) {
      case Value::Kind::kNode: return reference(v.as_node());
      case Value::Kind::kList: return "[" + joined("") + "]";
      case Value::Kind::kTuple: return "(" + joined(",") + ")";
      case Value::Kind::kSlice: return "slice(" + joined("") + ")";
      case Value::Kind::kDict: {
        std::string out;
        for (std::size_t i = 0; i < v.items().size(); ++i)
          out += (i ? ", " : "") + v.keys()[i] + ": " + argument(v.items()[i]);
        return "{" + out + "}";
      }
      case Value::Kind::kEllipsis: return "...";
      case Value::Kind::kComplex:
        return "complex(" + python_float(v.as_double()) + ", " + python_float(v.imag()) + ")";
      case Value::Kind::kDevice: return "device:" + v.text();
      case Value::Kind::kFloat: return python_float(v.as_double());
      default: return python_text(v);
    }
  }

  std::string meta_text(const Meta& meta, NodeId id) {
    switch (meta.kind) {
      case Meta::Kind::kUnknown: return "unknown";
      case Meta::Kind::kNone: return "?";
      case Meta::Kind::kScalar: return "= " + argument(meta.scalar);
      case Meta::Kind::kTuple: {
        std::string out;
        for (std::size_t i = 0; i < meta.items.size(); ++i) {
          if (i) out += ", ";
          out += meta.items[i].kind == Meta::Kind::kNone ? "= None" : meta_text(meta.items[i], id);
        }
        return "(" + out + ")";
      }
      case Meta::Kind::kTensor: break;
    }
    const TensorMeta& t = meta.tensor;
    std::string out = std::string(name_of(t.dtype)) + fmt::format("[{}]", fmt::join(t.shape, ","));
    const bool empty = std::find(t.shape.begin(), t.shape.end(), 0) != t.shape.end();
    if (!t.stride) {
      out += "{?}";
    } else {
      const std::vector<int64_t> full = full_strides(t.shape);
      std::vector<int64_t> stride = empty ? full : *t.stride;
      for (std::size_t i = 0; i < stride.size(); ++i) {
        if (t.shape[i] == 1) stride[i] = full[i];
      }
      if (stride != full) out += fmt::format("{{{}}}", fmt::join(stride, ","));
    }
    if (t.storage >= 0 && !empty) {
      const NodeId first = first_.emplace(t.storage, id).first->second;
      if (first != id) out += " @" + reference(first);
    }
    return out;
  }

  const Captured& captured_;
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::map<std::string, int>> names_;  // of each graph so far: compute node to position
  std::vector<std::string> identity_;
  std::vector<int> compute_;
  std::map<StorageId, NodeId> first_;
  int last_ = -1, position_ = 0;
};

std::string answer(const std::string& device, const std::string& folder, bool quiet) {
  const auto started = std::chrono::steady_clock::now();
  FileSystem& files = real_files();
  std::string body, state = "ok";
  const auto note = [&](const Diagnostic& d) {
    std::string message = d.message;
    std::replace(message.begin(), message.end(), '\n', ' ');
    body += fmt::format("! {} line {}: {}\n", d.code, d.span.line, message);
  };
  double ms = 0;
  CaptureOptions options;
  options.device = device;
  const auto taken = [&] {
    ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started).count();
  };
  Result<VariantFiles> variant = read_variant(files, folder);
  if (!variant) {
    taken();
    state = "error";
    note(variant.error());
  } else {
    const std::vector<InputMeta> inputs = input_metas(variant->tensors);
    Result<Captured> captured =
        capture_model(variant->model, variant->has_metadata ? &inputs : nullptr, options);
    taken();
    if (!captured) {
      state = "error";
      note(captured.error());
    } else {
      std::vector<std::string> parameters;
      const pysrc::Stmt* model = variant->model.find_class(options.class_name);
      const pysrc::Stmt* forward =
          pysrc::Module::find(model->body, pysrc::StmtKind::kFunction, options.method);
      for (std::size_t i = 1; i < forward->parameters.size(); ++i)
        parameters.push_back(forward->parameters[i].name);
      if (!quiet) body += Canonical(*captured, parameters).text();
      for (const Diagnostic& d : captured->findings) note(d);
    }
  }
  return fmt::format("= {} {} {:.3f}\n", folder, state, ms) + body;
}

int run(unsigned jobs, bool quiet) {
  std::vector<std::pair<std::string, std::string>> questions;
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) questions.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  std::atomic<std::size_t> next{0};
  std::mutex output;
  const auto work = [&] {
    for (std::size_t i = next++; i < questions.size(); i = next++) {
      const std::string text = answer(questions[i].first, questions[i].second, quiet);
      const std::lock_guard lock(output);
      std::cout << text << std::flush;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned j = 1; j < jobs; ++j) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return 0;
}

}  // namespace
}  // namespace passnet

int main(int argc, char** argv) {
  unsigned jobs = 1;
  bool quiet = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--quiet") quiet = true;
    if (option == "--jobs" && i + 1 < argc) jobs = static_cast<unsigned>(std::max(1, std::atoi(argv[++i])));
  }
  return passnet::run(jobs, quiet);
}
