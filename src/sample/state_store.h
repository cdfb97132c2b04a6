#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/json_fwd.h"
#include "base/lock_file.h"
#include "base/result.h"

// The pass_dir of a sample and every state it ever had. Guarantees:
//  * at every moment SAMPLE/pass_dir is one whole state, the old or the new one: states are exchanged as folders;
//  * nothing is lost: what is in pass_dir before the first exchange, whoever wrote it, is kept in the history first;
//  * a state is named by the hash of its files, so the same bytes are one state.
//
// Layout below the root (the sample, or the folder given by --out):
//   pass_dir/                        the state in force; `.ignore` stays whatever the state is
//   .passnet/history/<hash>/files/   the files of a state
//   .passnet/history/<hash>/*.json   what is known of it: state.json, check.json, ...
//   .passnet/lock                    held while the store is open for writing

namespace passnet {

using StateFiles = std::map<std::string, std::string>;  // relative path to content

struct StateInfo {
  std::string hash;
  std::string origin;  // "passnet" or "found" (was there before)
  double saved = 0;    // wall seconds
  std::vector<std::string> files;
  bool current = false;
};

// 16 hexadecimal digits over names and contents; `.ignore` and compiled Python do not count.
std::string state_hash(const StateFiles& files);

class StateStore {
 public:
  // Takes the lock, ends an interrupted exchange and clears abandoned staging folders. `state.locked` names the
  // process that holds it.
  static Result<StateStore> open(FileSystem& files, Clock& clock, std::string root);

  // The files of pass_dir now, `.ignore` left out; empty if there is no pass_dir.
  Result<StateFiles> current();

  // Makes `files` the state in force and returns its hash. What was there goes to the history first.
  Result<std::string> install(const StateFiles& state);
  // Keeps a state in the history without putting it in force.
  Result<std::string> keep(const StateFiles& state, std::string_view origin = "passnet");

  // Puts a kept state back: `name` is its hash or an unambiguous beginning of it, or "found" for the oldest state
  // that passnet did not write. Errors: state.unknown (lists what there is), state.ambiguous.
  Result<std::string> restore(std::string_view name);
  Result<StateFiles> read_state(std::string_view hash);
  Result<std::vector<StateInfo>> list();

  // A record beside a state: "check" is check.json. Overwritten as a whole.
  Status put_record(std::string_view hash, std::string_view name, const Json& record);
  std::optional<Json> get_record(std::string_view hash, std::string_view name);

  // Where the files of a kept state lie, as a pass_dir.
  std::string files_of(std::string_view hash) const { return join_path(state_dir(hash), "files"); }
  const std::string& root() const { return root_; }
  std::string pass_dir() const { return join_path(root_, "pass_dir"); }

 private:
  StateStore(FileSystem& files, Clock& clock, std::string root, std::optional<LockFile> lock)
      : files_(&files), clock_(&clock), root_(std::move(root)), lock_(std::move(lock)) {}
  std::string private_dir() const { return join_path(root_, ".passnet"); }
  std::string state_dir(std::string_view hash) const {
    return join_path(join_path(private_dir(), "history"), hash);
  }

  FileSystem* files_;
  Clock* clock_;
  std::string root_;
  std::optional<LockFile> lock_;
};

}  // namespace passnet
