#include "eval/surroundings.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "worker/worker.h"

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

// The command line of bubblewrap around the worker: everything readable, nothing writable but the run's own folders, no
// network, processes and shared memory of its own. The devices stay as they are.
std::vector<std::string> bubblewrap(const std::string& program, const Plan& plan, const std::string& scratch,
                                    const std::string& lock_dir) {
  std::vector<std::string> argv = {program,
                                   "--die-with-parent",
                                   "--unshare-net",
                                   "--unshare-pid",
                                   "--unshare-uts",
                                   "--unshare-ipc",
                                   "--ro-bind",
                                   "/",
                                   "/",
                                   "--dev-bind",
                                   "/dev",
                                   "/dev",
                                   "--tmpfs",
                                   "/dev/shm",
                                   "--proc",
                                   "/proc",
                                   "--tmpfs",
                                   "/tmp"};
  const auto bind = [&](const char* how, const std::string& path) {
    argv.insert(argv.end(), {how, path, path});
  };
  // Samples are mounted again for those that lie below the folder that was just emptied.
  for (const PlannedSample& sample : plan.samples) bind("--ro-bind", sample.root);
  // So is the worker's Python.
  if (const auto python = find_python(); python.ok()) {
    const std::string environment = dir_name(dir_name(absolute(python->program)));
    if (environment.starts_with("/tmp/")) bind("--ro-bind", environment);
  }
  bind("--bind", scratch);
  bind("--bind", lock_dir);
  return argv;
}

// Whether a command can be run in it here: user namespaces may be forbidden.
bool works(std::vector<std::string> argv) {
  argv.emplace_back("true");
  ProcessSpec spec;
  spec.argv = std::move(argv);
  RunOptions options;
  options.deadline = std::chrono::seconds(20);
  const auto done = run_process(spec, options);
  return done.ok() && done->end.success();
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
  const auto program = find_program("bwrap");
  std::vector<std::string> argv =
      bubblewrap(program.value_or("bwrap"), plan, absolute(scratch), absolute(out.lock_dir));
  if (!program || !works(argv)) {
    if (options.sandbox == "auto") return out;
    return user_error("eval.sandbox", program ? "bubblewrap is there and cannot make its namespaces here"
                                              : "bubblewrap (bwrap) is not installed")
        .with_hint("--sandbox none does without; the record says which level was reached");
  }
  PN_TRY(const PythonChoice python, find_python());
  PN_TRY(const std::string root, unpack_worker_files(files));
  const char* inherited = std::getenv("PYTHONPATH");
  out.env["PYTHONPATH"] = inherited != nullptr && *inherited != '\0' ? root + ":" + inherited : root;
  const std::string temporary = join_path(scratch, "tmp");
  PN_CHECK_OK(files.make_directory(temporary));
  out.env["TMPDIR"] = temporary;
  argv.insert(argv.end(), {"--chdir", root, "--", python.program, "-m", "passnet.worker", "--fd-in",
                           "{fd_in}", "--fd-out", "{fd_out}"});
  out.argv = std::move(argv);
  out.level = "bwrap";
  return out;
}

}  // namespace passnet::eval
