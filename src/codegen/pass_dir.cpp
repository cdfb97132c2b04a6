#include "codegen/pass_dir.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/json.h"
#include "codegen/host.h"
#include "codegen/tuning.h"

namespace passnet {

namespace {

using codegen::KernelText;
using codegen::WrittenEntry;

// `bindings` may know more about the layout of arguments than the program does; `tuned` more about its kernels.
Result<WrittenEntry> write_entry(const Program& program, const std::vector<Binding>* bindings,
                                 bool strip_casts, const std::vector<KernelConfig>& tuned = {}) {
  WrittenEntry out;
  codegen::PlanOptions options;
  options.strip_casts = strip_casts;
  if (bindings != nullptr) {
    int32_t input = 0;
    for (const Binding& b : *bindings) {
      if (!b.is_tensor) continue;
      if (b.tensor.stride) options.input_strides[input] = *b.tensor.stride;
      ++input;
    }
  }
  PN_TRY(out.plan, codegen::plan_program(program, options));
  for (size_t k = 0; k < std::min(tuned.size(), out.plan.kernels.size()); ++k)
    codegen::configure(out.plan.kernels[k], tuned[k]);
  for (const codegen::KernelPlan& k : out.plan.kernels) {
    PN_TRY(KernelText text, codegen::write_kernel(out.plan, k));
    out.kernels.push_back(std::move(text));
  }
  return out;
}

std::vector<int64_t> permuted_strides(const std::vector<int64_t>& shape, const std::vector<size_t>& order) {
  std::vector<int64_t> stride(shape.size());
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    stride[order[k]] = step;
    step *= shape[order[k]];
  }
  return stride;
}

// Where a library chooses the layout of an argument, the layouts that it is known to choose: contiguous, channels last
// (convolutions), heads after positions (attention). All such arguments of a call are taken to agree.
std::vector<PassEntry> with_layouts(const PassSpec& spec, std::vector<size_t>& source_of) {
  std::vector<PassEntry> out;
  for (size_t index = 0; index < spec.entries.size(); ++index) {
    const PassEntry& e = spec.entries[index];
    bool unknown = false, four = false;
    for (const Binding& b : e.bindings) {
      const bool open = b.is_tensor && !b.tensor.stride;
      unknown = unknown || open;
      four = four || (open && b.tensor.dim() == 4);
    }
    if (!unknown) {
      out.push_back(e);
      source_of.push_back(index);
      continue;
    }
    const std::vector<std::vector<size_t>> orders = {{0, 1, 2, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}};
    for (size_t k = 0; k < (four ? orders.size() : 1); ++k) {
      PassEntry copy = e;
      for (Binding& b : copy.bindings) {
        if (!b.is_tensor || b.tensor.stride) continue;
        b.tensor.stride = k > 0 && b.tensor.dim() == 4 ? permuted_strides(b.tensor.shape, orders[k])
                                                       : contiguous_strides(b.tensor.shape);
      }
      out.push_back(std::move(copy));
      source_of.push_back(index);
    }
  }
  return out;
}

bool has_half(const Program& program) {
  return std::any_of(program.arrays().begin(), program.arrays().end(), [](const Array& a) {
    return a.dtype == DType::kFloat16 || a.dtype == DType::kBFloat16;
  });
}

// Where the text for float32 is the one for 16-bit types without its conversions, the latter serves both: on float32
// its conversions do nothing.
void share_texts(const std::vector<PassEntry>& sources, std::vector<WrittenEntry>& entries) {
  std::map<std::string, const KernelText*> stripped;
  std::vector<WrittenEntry> keep;
  keep.reserve(entries.size());
  for (size_t e = 0; e < entries.size(); ++e) {
    if (!has_half(sources[e].program)) continue;
    Result<WrittenEntry> bare = write_entry(sources[e].program, &sources[e].bindings, true, sources[e].tuned);
    if (!bare.ok() || bare->kernels.size() != entries[e].kernels.size()) continue;
    keep.push_back(std::move(bare).value());
    for (size_t k = 0; k < entries[e].kernels.size(); ++k) {
      const auto& constants = entries[e].kernels[k].constants;
      if (constants.empty() || constants[0].first != "DT") continue;
      stripped.emplace(keep.back().kernels[k].body, &entries[e].kernels[k]);
    }
  }
  for (size_t e = 0; e < entries.size(); ++e) {
    if (has_half(sources[e].program)) continue;
    for (KernelText& text : entries[e].kernels) {
      const auto it = stripped.find(text.body);
      if (it == stripped.end() || it->second->constants.size() != text.constants.size() + 1) continue;
      text.body = it->second->body;
      text.helpers = it->second->helpers;
      text.constants.insert(text.constants.begin(), {"DT", "tl.float32"});
    }
  }
}

std::string manifest(const std::vector<PassSpec>& passes) {
  std::string out = "[";
  for (size_t i = 0; i < passes.size(); ++i)
    out += fmt::format("{}\n  \"{}\"", i == 0 ? "" : ",", passes[i].name);
  return out + (passes.empty() ? "]\n" : "\n]\n");
}

}  // namespace

Result<std::vector<TunableKernel>> tunable_kernels(const std::vector<PassSpec>& passes, size_t most) {
  std::vector<TunableKernel> out;
  for (size_t p = 0; p < passes.size(); ++p) {
    if (passes[p].kind != Region::Kind::kKernel) continue;
    for (size_t e = 0; e < passes[p].entries.size(); ++e) {
      const PassEntry& entry = passes[p].entries[e];
      PN_TRY(const WrittenEntry written, write_entry(entry.program, &entry.bindings, false, entry.tuned));
      for (size_t k = 0; k < written.plan.kernels.size(); ++k) {
        const codegen::KernelPlan& plan = written.plan.kernels[k];
        out.push_back({p, e, k, plan.read_bytes + plan.write_bytes, plan.flops, codegen::config_of(plan),
                       codegen::configurations(plan, most)});
      }
    }
  }
  return out;
}

ScheduleEstimate estimate_schedule(const Program& program) {
  ScheduleEstimate out;
  Result<WrittenEntry> written = write_entry(program, nullptr, false);
  if (!written.ok()) {
    out.verdict.refuse(written.error().code, written.error().message);
    out.kernels = 0;
    return out;
  }
  out.kernels = static_cast<int>(written->plan.kernels.size());
  for (const codegen::KernelPlan& k : written->plan.kernels) {
    if (out.schedule.find(k.schedule) == std::string::npos)
      out.schedule += (out.schedule.empty() ? "" : "+") + k.schedule;
    out.read_bytes += k.read_bytes;
    out.write_bytes += k.write_bytes;
    out.flops += k.flops;
  }
  if (out.schedule.empty()) out.schedule = "none";
  return out;
}

Result<GeneratedPassDir> generate_pass_dir(const std::vector<PassSpec>& passes) {
  GeneratedPassDir out;
  std::set<std::string> names, routes;
  std::map<std::string, std::string> kernel_names;  // body -> name
  std::set<std::string> helpers;
  std::string kernels, tables, functions, dispatch;
  bool libdevice = false, launches = false;
  for (size_t p = 0; p < passes.size(); ++p) {
    const PassSpec& spec = passes[p];
    if (!names.insert(spec.name).second)
      return user_error("codegen.name", "two passes are named " + spec.name);
    if (!routes.insert(spec.route).second)
      return user_error("codegen.route", "two passes have the route " + spec.route);
    PN_TRY(out.files[spec.name + ".py"], codegen::write_pass_file(spec));
    std::vector<WrittenEntry> entries;
    std::vector<PassEntry> sources;
    std::vector<size_t> source_of;
    if (spec.kind == Region::Kind::kKernel) {
      if (spec.entries.empty())
        return internal_error("codegen.entries", spec.name + ": a kernel pass without entries");
      sources = with_layouts(spec, source_of);
      for (const PassEntry& e : sources) {
        Result<WrittenEntry> written = write_entry(e.program, &e.bindings, false, e.tuned);
        if (!written.ok()) {
          Diagnostic d = std::move(written).error();
          d.message = fmt::format("{} ({}): {}", spec.name, e.where, d.message);
          return d;
        }
        entries.push_back(std::move(written).value());
      }
      share_texts(sources, entries);
      int count = 0;
      for (size_t e = 0; e < entries.size(); ++e) {
        WrittenEntry& w = entries[e];
        for (size_t k = 0; k < w.kernels.size(); ++k) {
          const KernelText& text = w.kernels[k];
          auto [it, fresh] = kernel_names.emplace(text.body, "");
          if (fresh) {
            ++count;
            it->second = count == 1 ? fmt::format("_{}_kernel", spec.route)
                                    : fmt::format("_{}_kernel_{}", spec.route, count);
            kernels += fmt::format("@triton.jit\ndef {}{}\n\n", it->second, text.body);
            helpers.insert(text.helpers.begin(), text.helpers.end());
            libdevice = libdevice || text.uses_libdevice;
          }
          w.names.push_back(it->second);
          KernelEntry entry;
          entry.route = spec.route;
          entry.pass = p;
          entry.entry = source_of[e];
          entry.kernel = it->second;
          entry.pointer_dtypes = text.pointer_dtypes;
          entry.constants = text.constants;
          entry.num_warps = w.plan.kernels[k].num_warps;
          entry.num_stages = w.plan.kernels[k].num_stages;
          entry.grid = w.plan.kernels[k].grid;
          out.kernels.push_back(std::move(entry));
        }
      }
      launches = true;
    }
    PN_TRY(const codegen::RouteText route, codegen::write_route(spec, sources, entries));
    if (!route.tables.empty()) tables += route.tables + "\n";
    if (!route.functions.empty()) {
      functions += route.functions + "\n\n";
      launches = true;
    }
    dispatch += fmt::format("    if route == \"{}\":\n        return {}\n", spec.route, route.call);
  }
  std::string text = "import torch\n";
  if (launches) {
    text += "import triton\nimport triton.language as tl\n";
    if (libdevice) text += "from triton.language.extra import libdevice\n";
    text += "from triton.runtime import driver\n\n\n";
    text += codegen::device_helpers(helpers) + kernels + "\n" + codegen::template_text("launch.py") + "\n\n" +
            tables + "\n" + functions;
  } else {
    text += "\n\n";
  }
  text += "@torch.fx.wrap\ndef dispatch_wrapper(*args):\n    route = args[-1]\n" + dispatch;
  text += "    raise ValueError(f\"unknown route {route!r}\")\n";
  out.files["_shared_kernels.py"] = std::move(text);
  out.files["sorted_output_pass_rule_names.json"] = manifest(passes);
  return out;
}

}  // namespace passnet
