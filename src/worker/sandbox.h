#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "worker/worker.h"

namespace passnet {

/// What a sandboxed worker sees of the folders that matter; absolute paths.
struct SandboxFolders {
  std::vector<std::string> readable;  ///< mounted again where they lie below /tmp, which is empty inside
  std::vector<std::string> writable;  ///< all that it can write
};

/// The command line of bubblewrap before the program's own: everything readable, nothing writable but those folders, /tmp
/// and /dev/shm empty, no network, processes and shared memory of its own. The devices stay as they are.
std::vector<std::string> bubblewrap_command(const std::string& program, const SandboxFolders& folders);

/// Whether a command can be run in it here: user namespaces may be forbidden.
bool sandbox_works(std::vector<std::string> bubblewrap);

/// `options` for a worker inside bubblewrap whose temporary files and caches lie in `scratch`. Errors: "worker.sandbox" where
/// bubblewrap is missing or cannot make its namespaces.
Result<WorkerOptions> sandboxed(FileSystem& files, WorkerOptions options, SandboxFolders folders,
                                const std::string& scratch);

}  // namespace passnet
