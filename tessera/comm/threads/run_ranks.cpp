#include "tessera/comm/threads/run_ranks.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <exception>
#include <mutex>
#include <thread>
#include <typeinfo>

#include "tessera/base/error.h"
#include "tessera/comm/memory.h"
#include "tessera/comm/threads/local_world.h"

namespace tessera {
namespace {

struct Failure {
  std::mutex mutex;
  int rank = -1;
  std::exception_ptr error;
};

template <typename E>
[[noreturn]] void rethrow_as(int rank, const E& error) {
  throw E("rank " + std::to_string(rank) + ": " + error.what());
}

[[noreturn]] void rethrow(const Failure& failure) {
  try {
    std::rethrow_exception(failure.error);
  } catch (const ConfigError& error) {
    rethrow_as(failure.rank, error);
  } catch (const CommError& error) {
    rethrow_as(failure.rank, error);
  } catch (const CheckpointError& error) {
    rethrow_as(failure.rank, error);
  } catch (const NonFiniteError& error) {
    rethrow_as(failure.rank, error);
  } catch (const InternalError& error) {
    rethrow_as(failure.rank, error);
  } catch (c10::Error& error) {
    error.add_context("rank " + std::to_string(failure.rank));
    throw;
  } catch (const std::runtime_error& error) {
    if (typeid(error) == typeid(std::runtime_error)) rethrow_as(failure.rank, error);
    throw;
  } catch (const std::logic_error& error) {
    if (typeid(error) == typeid(std::logic_error)) rethrow_as(failure.rank, error);
    throw;
  }
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

void run_ranks(int n, const std::function<void(const ProcessGroup& world)>& fn,
               const RankOptions& options) {
  TESSERA_CHECK(n >= 1, "a world of ", n, " ranks");
  install_memory_counting();
  const auto world = std::make_shared<LocalWorld>(n, options.group);
  std::vector<ProcessGroup> groups = local_groups(world);
  Failure failure;

  const auto run = [&](int rank) {
    at::set_num_threads(options.threads_per_rank);  // of this thread
    const MemoryRankGuard memory(rank);
    try {
      fn(groups[rank]);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      {
        std::lock_guard lock(failure.mutex);
        if (!failure.error) {
          failure.rank = rank;
          failure.error = error;
        }
      }
      world->fail(rank, message_of(error));
    }
    groups[rank] = {};
    world->leave(rank);
  };

  const int threads_here = at::get_num_threads();
  std::vector<std::thread> threads;
  threads.reserve(n);
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  at::set_num_threads(threads_here);
  if (failure.error) rethrow(failure);
}

}  // namespace tessera
