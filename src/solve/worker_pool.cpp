#include "solve/worker_pool.h"

#include <algorithm>
#include <mutex>
#include <thread>

namespace passnet {

std::vector<std::optional<Result<Json>>> WorkerPool::call(
    const std::vector<WorkerRequest>& requests,
    const std::function<bool(size_t, const Result<Json>&)>& stop) const {
  std::vector<std::optional<Result<Json>>> replies(requests.size());
  std::mutex mutex;
  size_t next = 0;
  const auto serve = [&](Worker& worker) {
    for (;;) {
      size_t mine = 0;
      {
        const std::lock_guard lock(mutex);
        if (next >= requests.size()) return;
        mine = next++;
      }
      Result<Json> reply = worker.call(requests[mine]);
      const std::lock_guard lock(mutex);
      if (stop && stop(mine, reply)) next = requests.size();
      replies[mine].emplace(std::move(reply));
    }
  };
  // A worker takes seconds to start: none is started that would have nothing to do. The calling thread serves too.
  const size_t used = std::min(workers_.size(), requests.size());
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < used; ++i) threads.emplace_back([&serve, worker = workers_[i]] { serve(*worker); });
  if (used > 0) serve(*workers_[0]);
  threads.clear();  // joins
  return replies;
}

}  // namespace passnet
