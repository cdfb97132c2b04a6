#include "eval/surroundings.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "worker/sandbox.h"

extern char** environ;

namespace passnet::eval {
namespace {

constexpr std::array kAllowed = {"PATH",
                                 "HOME",
                                 "LANG",
                                 "LC_ALL",
                                 "TMPDIR",
                                 "USER",
                                 "LD_LIBRARY_PATH",
                                 "PYTHONPATH",
                                 "VIRTUAL_ENV",
                                 "CUDA_VISIBLE_DEVICES",
                                 "CUDA_HOME",
                                 "CUDA_PATH",
                                 "GRAPH_NET_FLUCTUATION_DETECT_THRESHOLD",
                                 "PASSNET_CUSTOM_PASS_SOURCE_CHECKER_PATH",
                                 "CC",
                                 "CXX",
                                 "NVIDIA_VISIBLE_DEVICES",
                                 "NVIDIA_DRIVER_CAPABILITIES",
                                 "XDG_CACHE_HOME",
                                 "OMP_NUM_THREADS"};

}  // namespace

bool environment_allowed(std::string_view name) {
  for (const char* allowed : kAllowed)
    if (name == allowed) return true;
  return name.starts_with("TRITON_LIB") || name.starts_with("TRITON_PTXAS");
}

namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Result<Surroundings> surroundings(FileSystem& files, const EvalOptions& options, const Plan& plan,
                                  const std::string& scratch) {
  Surroundings out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!environment_allowed(name)) out.env[name] = std::nullopt;
  }
  const std::string caches = join_path(scratch, "caches");
  PN_CHECK_OK(files.make_directory(caches));
  out.env["TRITON_CACHE_DIR"] = join_path(caches, "triton");
  out.env["TORCHINDUCTOR_CACHE_DIR"] = join_path(caches, "inductor");
  out.env["PYTHONDONTWRITEBYTECODE"] = "1";
  out.env["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1";
  out.env["TORCHINDUCTOR_COMPILE_THREADS"] = "1";
  out.lock_dir =
      (std::filesystem::temp_directory_path() / fmt::format("passnet-locks-{}", ::getuid())).string();
  PN_CHECK_OK(files.make_directory(out.lock_dir));
  out.level = "process";
  out.sandbox = {{"network", options.protocol != Protocol::kStrict}};
  const bool wanted =
      options.sandbox == "bwrap" || (options.sandbox == "auto" && options.protocol == Protocol::kStrict);
  if (!wanted) return out;
  SandboxFolders folders;
  for (const PlannedSample& sample : plan.samples) folders.readable.push_back(sample.root);
  folders.writable = {absolute(out.lock_dir)};
  WorkerOptions inside;
  inside.env = out.env;
  Result<WorkerOptions> worker = sandboxed(files, std::move(inside), std::move(folders), absolute(scratch));
  if (!worker.ok()) {
    if (options.sandbox == "auto" && worker.error().code == "worker.sandbox") return out;
    if (worker.error().code != "worker.sandbox") return worker.error();
    return user_error("eval.sandbox", worker.error().message)
        .with_hint("--sandbox none does without; the record says which level was reached");
  }
  out.env = std::move(worker->env);
  out.argv = std::move(worker->argv);
  out.level = "bwrap";
  return out;
}

}  // namespace passnet::eval
