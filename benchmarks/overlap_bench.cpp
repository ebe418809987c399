// What pipeline_parallel_overlap_b_f hides, on any machine: layers sleep instead of computing, and
// messages take as long as they are told to.
//
//   overlap_bench [latency of a message, ms = 20]
//
// 2 stages x 2 ranks, 8 micro-batches, 2 layers a stage; a layer sleeps 10 ms, exchanges
// (all-to-all), sleeps 10 ms and exchanges again, and sleeps twice as long in backward.

#include <ATen/ATen.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tessera/comm/processes/message_group.h"
#include "tessera/comm/processes/shm_transport.h"
#include "tessera/comm/regions.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/pipeline_runtime.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kTokens = 8, kHidden = 4;

// Messages over shared memory that nobody has before `latency` after he asked for them.
class SlowTransport : public MessageTransport {
 public:
  SlowTransport(std::unique_ptr<MessageTransport> fast, milliseconds latency)
      : fast_(std::move(fast)), latency_(latency) {}
  std::unique_ptr<Request> send(const std::byte* data, int64_t bytes, int rank,
                                int32_t tag) override {
    return fast_->send(data, bytes, rank, tag);
  }
  std::unique_ptr<Request> recv(std::byte* data, int64_t bytes, int rank, int32_t tag) override {
    return std::make_unique<SlowRequest>(fast_->recv(data, bytes, rank, tag),
                                         Clock::now() + latency_);
  }

 private:
  class SlowRequest : public Request {
   public:
    SlowRequest(std::unique_ptr<Request> fast, Clock::time_point ready)
        : fast_(std::move(fast)), ready_(ready) {}
    void wait(Clock::time_point deadline) override {
      fast_->wait(deadline);
      std::this_thread::sleep_until(ready_);
    }
    void abort() override { fast_->abort(); }

   private:
    const std::unique_ptr<Request> fast_;
    const Clock::time_point ready_;
  };

  const std::unique_ptr<MessageTransport> fast_;
  const milliseconds latency_;
};

ProcessGroup slow_world(const ProcessGroup& threads, int port, milliseconds latency) {
  MeetingOptions options;
  options.rank = threads.rank();
  options.world = threads.size();
  options.master_port = port;
  options.job = "bench";
  auto fast = connect_shared_memory(std::make_shared<MeetingPoint>(options));
  return message_group(std::make_unique<SlowTransport>(std::move(fast), latency), options.rank,
                       options.world, {});
}

at::Tensor slept(const at::Tensor& x, milliseconds forward) {
  std::this_thread::sleep_for(forward);
  return with_backward(x, x.detach().clone(), [forward](const at::Tensor& grad) {
    std::this_thread::sleep_for(2 * forward);
    return grad;
  });
}

// Needs no input, has a weight: the start of the first stage.
Call start(ShardedUnit& unit, const Weight& weight) {
  Call call;
  call.name = "start";
  call.units = {&unit};
  call.forward = [&weight](const std::vector<at::Tensor>&, const LayerContext&) {
    return std::vector<at::Tensor>{weight.value * 1.0};
  };
  return call;
}

Call end() {
  Call call;
  call.name = "end";
  call.losses = 1;
  call.forward = [](const std::vector<at::Tensor>& x, const LayerContext&) {
    return std::vector<at::Tensor>{x.at(0).sum()};
  };
  return call;
}

// Sleeps and exchanges, twice.
Call layer(const ProcessGroup& tp) {
  Call call;
  call.name = "layer";
  call.forward = [tp](const std::vector<at::Tensor>& inputs, const LayerContext&) {
    const std::vector<int64_t> halves(2, kTokens / 2);
    at::Tensor x = inputs.at(0);
    for (int i = 0; i < 2; ++i) x = all_to_all(slept(x, milliseconds(10)), halves, halves, tp);
    return std::vector<at::Tensor>{x};
  };
  return call;
}

// Seconds of a step, the best of three. The ranks meet at `port`.
double step_seconds(bool overlap, milliseconds latency, int port) {
  double best = 1e9;
  run_ranks(4, [&](const ProcessGroup& threads) {
    const ProcessGroup world = slow_world(threads, port, latency);
    ParallelDims dims;
    dims.world = 4;
    dims.pp = 2;
    dims.tp = 2;
    const DeviceMesh mesh(dims, world);
    const bool first = mesh.coordinate(Axis::kPp) == 0;
    Weight weight;
    weight.parts.emplace_back();
    weight.parts.front().name = "weight";
    weight.parts.front().shape = {kTokens, kHidden};
    ParamTable table;
    ShardedUnit unit("start", {&weight}, mesh, Axis::kFsdp, at::kFloat, table);
    std::vector<Call> calls;
    if (first) calls.push_back(start(unit, weight));
    calls.push_back(layer(mesh[Axis::kTp]));
    calls.push_back(layer(mesh[Axis::kTp]));
    if (!first) calls.push_back(end());
    std::vector<ModelChunk> chunks;
    chunks.emplace_back(std::move(calls),
                        Resharding{.keep_all_step = true, .keep_head = true, .reduce_once = true});
    ScheduleOptions schedule;
    schedule.stages = 2;
    schedule.micro_batches = 8;
    schedule.overlap_p2p = true;
    schedule.overlap_b_f = overlap;
    PipelineRuntime pipeline(schedule, chunks, mesh[Axis::kPp], kHidden, at::kFloat);
    for (int step = 0; step < 3; ++step) {
      std::vector<LayerContext> contexts(8);
      for (size_t i = 0; i < contexts.size(); ++i) {
        contexts[i].micro_batch = static_cast<int64_t>(i);
        contexts[i].residual_tokens = {0, kTokens};
      }
      threads.barrier();
      const auto begin = Clock::now();
      pipeline.run(contexts);
      threads.barrier();
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (world.rank() == 0) best = std::min(best, seconds);
    }
  });
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const milliseconds latency(argc > 1 ? std::atoi(argv[1]) : 20);
  int port = 20000 + getpid() % 10000;
  for (const bool overlap : {false, true}) {
    std::printf("overlap_b_f %s, messages of %lld ms: %.0f ms a step\n", overlap ? "on" : "off",
                static_cast<long long>(latency.count()),
                1e3 * step_seconds(overlap, latency, ++port));
  }
  return 0;
}
