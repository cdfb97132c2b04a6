#include "codegen/host.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "check/pattern_text.h"
#include "embedded/codegen_templates.h"
#include "ir/value.h"

namespace passnet::codegen {

namespace {

std::string tuple_text(const std::vector<std::string>& items) {
  if (items.size() == 1) return "(" + items[0] + ",)";
  return fmt::format("({})", fmt::join(items, ", "));
}

std::string tuple_text(const std::vector<int64_t>& items) {
  std::vector<std::string> text;
  for (const int64_t i : items) text.push_back(std::to_string(i));
  return tuple_text(text);
}

std::string type_name(const Value& v) {
  switch (v.kind()) {
    case Value::Kind::kNone: return "NoneType";
    case Value::Kind::kBool: return "bool";
    case Value::Kind::kInt: return "int";
    case Value::Kind::kFloat: return "float";
    case Value::Kind::kComplex: return "complex";
    case Value::Kind::kString: return "str";
    case Value::Kind::kDType: return "dtype";
    case Value::Kind::kList:
    case Value::Kind::kTuple: return "tuple";
    case Value::Kind::kEllipsis: return "ellipsis";
    default: return "";
  }
}

std::vector<int64_t> plain_strides(const std::vector<int64_t>& shape, std::vector<int64_t> stride) {
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1 || empty) stride[i] = step;
    step *= shape[i];
  }
  return stride;
}

std::vector<int64_t> strides_of(const TensorMeta& meta) {
  return plain_strides(meta.shape, meta.stride ? *meta.stride : contiguous_strides(meta.shape));
}

// Memory that a route allocates, in order: outputs, then intermediates.
struct Allocation {
  std::vector<int64_t> shape;  // as allocated
  DType dtype = DType::kFloat32;
  std::vector<int64_t> permute;  // applied afterwards; empty: none
};

std::vector<Allocation> allocations(const PassEntry& entry, const WrittenEntry& written) {
  std::vector<Allocation> out;
  const Program& p = entry.program;
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    const Array& a = p.array(p.outputs[k]);
    Allocation alloc;
    alloc.dtype = a.dtype;
    alloc.shape = a.shape;
    const std::vector<int64_t>& stride = written.plan.output_strides[k];
    if (plain_strides(a.shape, stride) != contiguous_strides(a.shape)) {
      std::vector<size_t> order(a.shape.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return stride[x] > stride[y]; });
      alloc.permute.resize(order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        alloc.shape[i] = a.shape[order[i]];
        alloc.permute[order[i]] = static_cast<int64_t>(i);
      }
    }
    out.push_back(std::move(alloc));
  }
  for (const Buffer& b : written.plan.buffers) {
    if (b.kind == Buffer::Kind::kScratch) out.push_back({b.shape, b.dtype, {}});
  }
  return out;
}

// Which memory each kernel is given: "a0" argument 0, "o1" allocation 1.
std::vector<std::vector<std::string>> operands(const PassEntry& entry, const WrittenEntry& written) {
  std::map<int32_t, int> scratch;
  for (size_t b = 0; b < written.plan.buffers.size(); ++b) {
    if (written.plan.buffers[b].kind == Buffer::Kind::kScratch) {
      const int number = static_cast<int>(entry.program.outputs.size() + scratch.size());
      scratch[static_cast<int32_t>(b)] = number;
    }
  }
  std::vector<std::vector<std::string>> out;
  for (const KernelText& k : written.kernels) {
    std::vector<std::string> row;
    for (const int32_t b : k.reads) {
      const Buffer& buffer = written.plan.buffers[static_cast<size_t>(b)];
      row.push_back(buffer.kind == Buffer::Kind::kInput ? fmt::format("a{}", buffer.number)
                                                        : fmt::format("o{}", scratch.at(b)));
    }
    for (const auto& [output, buffer] : k.writes) {
      row.push_back(fmt::format("o{}", output >= 0 ? output : scratch.at(buffer)));
    }
    out.push_back(std::move(row));
  }
  return out;
}

// Everything in which the host code of two entries may differ.
struct HostPlan {
  std::vector<std::vector<std::string>> kernels;
  std::vector<std::vector<int64_t>> permutes;
  bool operator==(const HostPlan&) const = default;
};

}  // namespace

std::string python_name(const std::string& wish) {
  static const std::set<std::string> taken = {
      "False",   "None",     "True",      "and",      "as",        "assert", "async",    "await",
      "break",   "class",    "continue",  "def",      "del",       "elif",   "else",     "except",
      "finally", "for",      "from",      "global",   "if",        "import", "in",       "is",
      "lambda",  "nonlocal", "not",       "or",       "pass",      "raise",  "return",   "try",
      "while",   "with",     "yield",     "torch",    "triton",    "tl",     "operator", "math",
      "inspect", "graph",    "module",    "pattern",  "slice",     "float",  "complex",  "name",
      "key",     "entry",    "k",         "driver",   "libdevice", "run",    "grid",     "head",
      "stream",  "device",   "constants", "function", "metadata",  "zip",    "any",      "len"};
  std::string out;
  for (const char c : wish) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += word ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out = "v" + out;
  if (taken.count(out)) out += "_";
  return out;
}

std::string template_text(std::string_view name) {
  for (const EmbeddedFile& f : embedded::codegen_templates()) {
    if (f.path == name) return std::string(f.content);
  }
  return {};
}

std::string device_helpers(const std::set<std::string>& names) {
  const std::string all = template_text("device.py");
  std::string out;
  size_t at = 0;
  while ((at = all.find("@triton.jit", at)) != std::string::npos) {
    size_t end = all.find("@triton.jit", at + 1);
    if (end == std::string::npos) end = all.size();
    const size_t def = all.find("def ", at) + 4;
    if (names.count(all.substr(def, all.find('(', def) - def))) {
      std::string text = all.substr(at, end - at);
      while (!text.empty() && text.back() == '\n') text.pop_back();
      out += text + "\n\n\n";
    }
    at = end;
  }
  return out;
}

Result<RouteText> write_route(const PassSpec& spec, const std::vector<PassEntry>& entries,
                              const std::vector<WrittenEntry>& written_entries) {
  RouteText out;
  out.name = spec.route;
  const std::string table = fmt::format("_{}_ENTRIES", [&] {
    std::string upper = spec.route;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return upper;
  }());
  const size_t n = spec.entries.empty() ? 0 : spec.entries[0].bindings.size();
  std::vector<size_t> tensors, literals;
  for (size_t i = 0; i < n; ++i) (spec.entries[0].bindings[i].is_tensor ? tensors : literals).push_back(i);

  if (spec.kind == Region::Kind::kZeroLaunch) {
    out.call = fmt::format("args[{}]", spec.returns);
    if (spec.item >= 0) out.call += fmt::format("[{}]", spec.item);
    // What returns its argument whatever the layout needs no look at it.
    bool always = spec.item >= 0;
    for (const auto& node : spec.pattern.nodes()) {
      if (node->op == NodeOp::kCallFunction || node->op == NodeOp::kCallMethod) {
        always = always || node->target.find("dropout") != std::string::npos;
      }
    }
    if (always || spec.entries.empty()) return out;
    std::set<std::string> known;
    for (const PassEntry& e : spec.entries) {
      const Binding& b = e.bindings[static_cast<size_t>(spec.returns)];
      if (!b.is_tensor) continue;
      // As captured too: who follows the call natively then sees at once what it returns.
      for (const std::vector<int64_t>& stride :
           {strides_of(b.tensor), b.tensor.stride.value_or(strides_of(b.tensor)),
            b.captured_stride.value_or(strides_of(b.tensor))}) {
        known.insert(fmt::format("({}, {}, torch.{})", tuple_text(b.tensor.shape), tuple_text(stride),
                                 name_of(b.tensor.dtype)));
      }
    }
    if (known.empty()) return out;
    out.tables = fmt::format("{} = (\n", table);
    for (const std::string& k : known) out.tables += "    " + k + ",\n";
    out.tables += ")\n";
    out.functions = fmt::format(
        "def _return_{0}(x):\n"
        "    if (x.shape, x.stride(), x.dtype) not in {1}:\n"
        "        if (tuple(x.shape), _plain_strides(x.shape, x.stride()), x.dtype) not in {1}:\n"
        "            raise ValueError(f\"{0} was not written for {{tuple(x.shape)}} {{x.stride()}} "
        "{{x.dtype}}\")\n"
        "    return x\n",
        spec.route, table);
    out.call = fmt::format("_return_{}({})", spec.route, out.call);
    return out;
  }

  if (tensors.empty()) {
    return user_error("codegen.no_tensor",
                      spec.name + ": a region that reads no tensor has no device to run on")
        .with_hint("Leave it to eager, or take in a node that reads a tensor.");
  }

  // ---- the table ----
  std::vector<HostPlan> plans;
  std::vector<size_t> plan_of;
  std::set<std::string> keys;
  out.tables = table + " = {\n";
  std::vector<std::vector<Allocation>> memory;
  for (size_t e = 0; e < entries.size(); ++e) {
    const PassEntry& entry = entries[e];
    const WrittenEntry& written = written_entries[e];
    memory.push_back(allocations(entry, written));
    HostPlan plan;
    plan.kernels = operands(entry, written);
    for (const Allocation& a : memory.back()) plan.permutes.push_back(a.permute);
    size_t number = static_cast<size_t>(std::find(plans.begin(), plans.end(), plan) - plans.begin());
    if (number == plans.size()) plans.push_back(plan);
    plan_of.push_back(number);

    std::vector<std::string> key;
    for (const size_t i : tensors) {
      const TensorMeta& t = entry.bindings[i].tensor;
      key.push_back(tuple_text(t.shape));
      key.push_back(tuple_text(strides_of(t)));
      key.push_back(fmt::format("torch.{}", name_of(t.dtype)));
    }
    for (const size_t i : literals) {
      const Value& v = entry.bindings[i].literal;
      const std::string type = type_name(v);
      if (type.empty()) {
        return user_error("codegen.literal", spec.name + ": a bound literal of a kind that cannot be a key");
      }
      key.push_back("\"" + type + "\"");
      key.push_back(v.kind() == Value::Kind::kList ? python_text(Value::tuple(v.items())) : python_text(v));
    }
    const std::string key_text = tuple_text(key);
    if (!keys.insert(key_text).second) continue;  // the same situation on another variant
    if (!entry.where.empty()) out.tables += fmt::format("    # {}\n", entry.where);
    out.tables += fmt::format("    {}: (\n", key_text);
    std::vector<std::string> shapes;
    for (const Allocation& a : memory.back()) {
      shapes.push_back(fmt::format("({}, torch.{})", tuple_text(a.shape), name_of(a.dtype)));
    }
    out.tables += fmt::format("        {},\n", tuple_text(shapes));
    std::vector<std::string> launches;
    for (size_t k = 0; k < written.kernels.size(); ++k) {
      std::vector<std::string> constants;
      for (const auto& [name, value] : written.kernels[k].constants) constants.push_back(value);
      launches.push_back(fmt::format("({}, {}, {}, {}, {})", written.names[k], written.plan.kernels[k].grid,
                                     written.plan.kernels[k].num_warps, written.plan.kernels[k].num_stages,
                                     tuple_text(constants)));
    }
    if (launches.empty()) {
      out.tables += "        (),\n";
    } else {
      out.tables += "        (\n";
      for (const std::string& l : launches) out.tables += "            " + l + ",\n";
      out.tables += "        ),\n";
    }
    out.tables += fmt::format("        {},\n    ),\n", number);
  }
  out.tables += fmt::format("}}\n_LAST[\"{}\"] = [None]\n", spec.route);

  // ---- the function ----
  std::vector<std::string> names;
  std::set<std::string> used;
  for (const NodeId id : spec.pattern.placeholders()) {
    std::string name = python_name(spec.pattern.node(id).name);
    while (!used.insert(name).second) name += "_";
    names.push_back(name);
  }
  if (names.size() != n)
    return internal_error("codegen.bindings", spec.name + ": bindings and placeholders differ in number");
  std::vector<std::string> key;
  for (const size_t i : tensors) {
    key.push_back(names[i] + ".shape");
    key.push_back(names[i] + ".stride()");
    key.push_back(names[i] + ".dtype");
  }
  for (const size_t i : literals) {
    const bool sequence = entries[0].bindings[i].literal.is_sequence();
    key.push_back(sequence ? "\"tuple\"" : fmt::format("{}.__class__.__name__", names[i]));
    key.push_back(sequence ? fmt::format("tuple({})", names[i]) : names[i]);
  }
  key.push_back(names[tensors[0]] + ".device");
  std::string& f = out.functions;
  f += fmt::format("def _run_{}({}):\n", spec.route, fmt::join(names, ", "));
  f += "    key = (\n";
  for (const std::string& k : key) f += fmt::format("        {},\n", k);
  f += "    )\n";
  f += fmt::format("    entry = _LAST[\"{}\"]\n", spec.route);
  f += "    if entry[0] != key:\n";
  f += fmt::format("        entry = _entry(\"{}\", {}, key, {})\n", spec.route, table, tensors.size());

  const auto body = [&](size_t number, const std::string& indent) {
    const HostPlan& plan = plans[number];
    std::string t;
    const auto line = [&](const std::string& text) { t += indent + text + "\n"; };
    const size_t outputs = entries[0].program.outputs.size();
    for (size_t o = 0; o < plan.permutes.size(); ++o) {
      // An argument of the very same shape, layout and type in every entry gives the memory for less host time.
      size_t like = n;
      for (const size_t i : tensors) {
        bool same = true;
        for (size_t e = 0; same && e < entries.size(); ++e) {
          if (plan_of[e] != number) continue;
          const TensorMeta& m = entries[e].bindings[i].tensor;
          same = m.shape == memory[e][o].shape && m.dtype == memory[e][o].dtype &&
                 memory[e][o].permute.empty() && strides_of(m) == contiguous_strides(m.shape) &&
                 m.numel() > 0;
        }
        if (same) {
          like = i;
          break;
        }
      }
      if (like < n) {
        line(fmt::format("o{} = torch.empty_like({})", o, names[like]));
      } else {
        line(fmt::format("shape, dtype = entry[1][{}]", o));
        // Sizes one by one are read in two thirds of the time that a tuple takes; without any they are no sizes.
        bool axes = true;
        for (size_t e = 0; e < entries.size(); ++e)
          axes = axes && (plan_of[e] != number || !memory[e][o].shape.empty());
        line(fmt::format("o{} = torch.empty({}shape, dtype=dtype, device=key[-1])", o, axes ? "*" : ""));
      }
    }
    std::vector<std::string> results;
    for (size_t o = 0; o < outputs; ++o) {
      std::string r = fmt::format("o{}", o);
      if (!plan.permutes[o].empty()) {
        std::vector<std::string> dims;
        for (const int64_t d : plan.permutes[o]) dims.push_back(std::to_string(d));
        r += fmt::format(".permute({})", fmt::join(dims, ", "));
      }
      results.push_back(r);
    }
    const std::string result = spec.tuple_output ? tuple_text(results) : results[0];
    if (plan.kernels.empty()) {
      line("return " + result);
      return t;
    }
    std::set<std::string> all;
    for (const auto& k : plan.kernels) all.insert(k.begin(), k.end());
    std::vector<std::string> addresses;
    const auto variable = [&](const std::string& operand) {
      const auto number_of = static_cast<size_t>(std::stoul(operand.substr(1)));
      return operand[0] == 'a' ? names[tensors[number_of]] : operand;
    };
    for (const std::string& operand : all) {
      line(fmt::format("p_{0} = {1}.data_ptr()", operand, variable(operand)));
      if (operand[0] == 'a') addresses.push_back("p_" + operand);
    }
    if (addresses.empty()) {
      line("slot = 4");
    } else {
      line(fmt::format("slot = 5 if ({}) & 15 else 4", fmt::join(addresses, " | ")));
    }
    line("bound = entry[slot]");
    line("if bound is None:");
    std::vector<std::string> lists;
    for (const auto& k : plan.kernels) {
      std::vector<std::string> list;
      for (const std::string& operand : k) list.push_back(variable(operand));
      lists.push_back(tuple_text(list));
    }
    line(fmt::format("    _first_launch(entry, slot, key[-1], {})", tuple_text(lists)));
    line("    return " + result);
    std::vector<std::string> slots;
    for (size_t k = 0; k < plan.kernels.size(); ++k) slots.push_back(fmt::format("launch_{}", k));
    line(fmt::format("stream, device, {} = bound", fmt::join(slots, ", ")));
    line("stream = stream(device)");
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      std::vector<std::string> pointers;
      for (const std::string& operand : plan.kernels[k]) pointers.push_back("p_" + operand);
      line(fmt::format("run, grid, head, constants = launch_{}", k));
      line(fmt::format("run(grid, 1, 1, stream, *head, {}, *constants)", fmt::join(pointers, ", ")));
    }
    line("return " + result);
    return t;
  };
  if (plans.size() == 1) {
    f += body(0, "    ");
  } else {
    for (size_t p = 0; p < plans.size(); ++p) {
      f += fmt::format("    if entry[3] == {}:\n", p);
      f += body(p, "        ");
    }
    f += fmt::format("    raise ValueError(f\"{}: no plan {{entry[3]}}\")\n", spec.route);
  }
  std::vector<std::string> call_args;
  for (size_t i = 0; i < n; ++i) call_args.push_back(fmt::format("args[{}]", i));
  out.call = fmt::format("_run_{}({})", spec.route, fmt::join(call_args, ", "));
  return out;
}

Result<std::string> write_pass_file(const PassSpec& spec) {
  std::set<std::string> used;
  std::vector<std::string> names;
  std::string summary;
  for (const auto& node : spec.pattern.nodes()) {
    std::string name = python_name(node->name);
    while (!used.insert(name).second) name += "_";
    names.push_back(std::move(name));
    if (node->op != NodeOp::kCallFunction && node->op != NodeOp::kCallMethod) continue;
    summary += fmt::format("{}{}{}", summary.empty() ? "" : ", ", node->op == NodeOp::kCallMethod ? "." : "",
                           node->target.substr(node->target.rfind('.') + 1));
  }
  if (spec.pattern.output() == nullptr || spec.pattern.output()->args.size() != 1)
    return internal_error("codegen.pattern", spec.name + ": a pattern without one output");
  Result<check::PatternText> pattern = check::pattern_text(spec.pattern, spec.name, names);
  if (!pattern.ok()) {
    Diagnostic d = std::move(pattern).error();
    d.message = spec.name + ": " + d.message;
    return d;
  }
  std::string out = fmt::format("# Fuses {}.\n", summary.empty() ? spec.route : summary);
  out += "import inspect\n";
  for (const std::string& m : pattern->modules) out += "import " + m + "\n";
  out += "import torch\n\nfrom pass_dir._shared_kernels import dispatch_wrapper\n\n\n";
  out += pattern->definition + "\n\n";
  out += fmt::format("def replacement_args({}):\n", fmt::join(pattern->parameters, ", "));
  std::vector<std::string> values = pattern->parameters;
  values.push_back("\"" + spec.route + "\"");
  out += fmt::format("    return {}\n\n\n", tuple_text(values));
  out += "def replacement_func():\n    return dispatch_wrapper\n";
  return out;
}

}  // namespace passnet::codegen
