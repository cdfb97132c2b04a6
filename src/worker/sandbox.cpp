#include "worker/sandbox.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/subprocess.h"

namespace passnet {

std::vector<std::string> bubblewrap_command(const std::string& program, const SandboxFolders& folders) {
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
  for (const std::string& folder : folders.readable) bind("--ro-bind", folder);
  // So is the worker's Python.
  if (const auto python = find_python(); python.ok()) {
    const std::string full = std::filesystem::absolute(python->program).lexically_normal().string();
    const std::string environment = dir_name(dir_name(full));
    if (environment.starts_with("/tmp/")) bind("--ro-bind", environment);
  }
  for (const std::string& folder : folders.writable) bind("--bind", folder);
  return argv;
}

bool sandbox_works(std::vector<std::string> bubblewrap) {
  bubblewrap.emplace_back("true");
  ProcessSpec spec;
  spec.argv = std::move(bubblewrap);
  RunOptions options;
  options.deadline = std::chrono::seconds(20);
  const auto done = run_process(spec, options);
  return done.ok() && done->end.success();
}

Result<WorkerOptions> sandboxed(FileSystem& files, WorkerOptions options, SandboxFolders folders,
                                const std::string& scratch) {
  const auto program = find_program("bwrap");
  folders.writable.push_back(scratch);
  std::vector<std::string> argv = bubblewrap_command(program.value_or("bwrap"), folders);
  if (!program || !sandbox_works(argv)) {
    return user_error("worker.sandbox", program ? "bubblewrap is there and cannot make its namespaces here"
                                                : "bubblewrap (bwrap) is not installed");
  }
  PN_TRY(const PythonChoice python, find_python(options.python));
  PN_TRY(const std::string root, unpack_worker_files(files));
  const char* inherited = std::getenv("PYTHONPATH");
  options.env["PYTHONPATH"] = inherited != nullptr && *inherited != '\0' ? root + ":" + inherited : root;
  const std::string temporary = join_path(scratch, "tmp");
  PN_CHECK_OK(files.make_directory(temporary));
  options.env["TMPDIR"] = temporary;
  argv.insert(argv.end(), {"--chdir", root, "--", python.program, "-m", "passnet.worker", "--fd-in",
                           "{fd_in}", "--fd-out", "{fd_out}"});
  options.argv = std::move(argv);
  return options;
}

}  // namespace passnet
