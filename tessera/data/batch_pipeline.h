#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include "tessera/data/text/document_source.h"

namespace tessera {

/// Batches that are worked on by other threads while the inputs are read on. What take() gives
/// keeps the order of the inputs, and so do errors: the source's comes after what was read before
/// it.
template <typename Result>
class BatchPipeline {
 public:
  /// `work` is called on up to `workers` threads at a time.
  BatchPipeline(DocumentSource& source, std::function<Result(const Batch&)> work, int64_t workers)
      : source_(source),
        work_(std::move(work)),
        workers_(static_cast<size_t>(std::max<int64_t>(1, workers))) {}

  /// Nothing at the end. Throws what the work or the source threw.
  std::optional<Result> take() {
    while (!ended_ && running_.size() < workers_) start_one();
    if (running_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    Result result = running_.front().get();
    running_.pop_front();
    return result;
  }

 private:
  void start_one() {
    Batch batch;
    try {
      ended_ = !source_.next(batch);
    } catch (...) {
      error_ = std::current_exception();
      ended_ = true;
    }
    if (ended_) return;
    const auto policy = workers_ > 1 ? std::launch::async : std::launch::deferred;
    running_.push_back(
        std::async(policy, [this, batch = std::move(batch)] { return work_(batch); }));
  }

  DocumentSource& source_;
  std::function<Result(const Batch&)> work_;
  size_t workers_;
  std::deque<std::future<Result>> running_;
  std::exception_ptr error_;
  bool ended_ = false;
};

}  // namespace tessera
