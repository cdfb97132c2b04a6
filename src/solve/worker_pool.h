#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "worker/worker.h"

namespace passnet {

/// Requests answered by several workers at once, each worker by one thread, in the order given as far as the
/// workers are free. Replies are by request, so that what is made of them does not depend on who was faster.
class WorkerPool {
 public:
  /// At least one worker; they outlive the pool.
  explicit WorkerPool(std::vector<Worker*> workers) : workers_(std::move(workers)) {}

  /// `stop` (may be empty) sees each reply as it comes, one at a time; once it said true no further request is
  /// begun. The replies of requests never begun are nullopt.
  std::vector<std::optional<Result<Json>>> call(
      const std::vector<WorkerRequest>& requests,
      const std::function<bool(size_t request, const Result<Json>& reply)>& stop) const;

  size_t size() const { return workers_.size(); }

 private:
  std::vector<Worker*> workers_;
};

}  // namespace passnet
