// Idle time of the pipeline's interpreter over the ideal step: chunks that sleep instead of
// computing, so that cores do not matter. Interleaved 1F1B leaves (p - 1) / (v m) (Narayanan et al.
// 2021, section 2.2).
//
//   pipeline_idle [stages = 4] [chunks = 2] [micro_batches = 8] [forward ms = 20] [backward ms =
//   40]

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tessera/comm/threads/run_ranks.h"
#include "tessera/parallel/pipeline_runtime.h"

namespace {

using namespace tessera;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int64_t kTokens = 4, kHidden = 4;

// Passes its input on, and its gradient back, after a while.
struct Sleep : torch::autograd::Function<Sleep> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, double forward_ms,
                            double backward_ms) {
    ctx->saved_data["ms"] = backward_ms;
    std::this_thread::sleep_for(Milliseconds(forward_ms));
    return x.clone();
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    std::this_thread::sleep_for(Milliseconds(ctx->saved_data["ms"].toDouble()));
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

// A chunk of one call with one weight, which is all that the first chunk differentiates for.
struct SleepingChunk {
  Weight weight;
  std::unique_ptr<ShardedUnit> unit;

  ModelChunk make(int64_t stage, bool last, double forward_ms, double backward_ms,
                  const DeviceMesh& mesh, ParamTable& table) {
    ParameterPart part;
    part.name = "scale" + std::to_string(stage);
    part.shape = {1};
    weight.parts.push_back(std::move(part));
    unit = std::make_unique<ShardedUnit>(weight.parts[0].name, std::vector{&weight}, mesh,
                                         Axis::kFsdp, at::kFloat, table);
    Call call;
    call.name = weight.parts[0].name;
    call.units = {unit.get()};
    call.losses = last ? 1 : 0;
    call.forward = [this, last, forward_ms, backward_ms](const std::vector<at::Tensor>& inputs,
                                                         const LayerContext&) {
      const at::Tensor x = inputs.empty() ? at::ones({kTokens, kHidden}) : inputs[0];
      const at::Tensor y = Sleep::apply(x * weight.value, forward_ms, backward_ms);
      return std::vector<at::Tensor>{last ? y.sum() : y};
    };
    return ModelChunk({std::move(call)},
                      {.keep_all_step = true, .keep_head = true, .reduce_once = true});
  }
};

// Milliseconds of a step on the slowest rank, median of three after one that warms up.
double step_ms(const ScheduleOptions& options, double forward_ms, double backward_ms) {
  std::vector<double> steps;
  run_ranks(static_cast<int>(options.stages), [&](const ProcessGroup& world) {
    ParallelDims dims;
    dims.world = dims.pp = options.stages;
    const DeviceMesh mesh(dims, world);
    ParamTable table;
    std::vector<SleepingChunk> parts(static_cast<size_t>(options.chunks));
    std::vector<ModelChunk> chunks;
    for (int64_t c = 0; c < options.chunks; ++c) {
      const int64_t stage = c * options.stages + world.rank();
      chunks.push_back(parts[static_cast<size_t>(c)].make(
          stage, stage + 1 == options.virtual_stages(), forward_ms, backward_ms, mesh, table));
    }
    PipelineRuntime pipeline(options, chunks, mesh[Axis::kPp], kHidden, at::kFloat);
    for (int step = 0; step < 4; ++step) {
      std::vector<LayerContext> contexts(static_cast<size_t>(options.micro_batches));
      for (size_t i = 0; i < contexts.size(); ++i) {
        contexts[i].micro_batch = static_cast<int64_t>(i);
        contexts[i].residual_tokens = {0, kTokens};
      }
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      pipeline.run(contexts);
      world.barrier();
      const Milliseconds took = std::chrono::steady_clock::now() - start;
      if (world.rank() == 0 && step > 0) steps.push_back(took.count());
    }
  });
  std::sort(steps.begin(), steps.end());
  return steps[steps.size() / 2];
}

double argument(int argc, char** argv, int index, double otherwise) {
  return argc > index ? std::atof(argv[index]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  ScheduleOptions options;
  options.stages = static_cast<int64_t>(argument(argc, argv, 1, 4));
  options.chunks = static_cast<int64_t>(argument(argc, argv, 2, 2));
  options.micro_batches = static_cast<int64_t>(argument(argc, argv, 3, 8));
  options.kind = kind_for_chunks(options.chunks);
  const double forward_ms = argument(argc, argv, 4, 20), backward_ms = argument(argc, argv, 5, 40);
  const auto passes = static_cast<double>(options.chunks * options.micro_batches);
  const double ideal = passes * (forward_ms + backward_ms);
  const double formula = static_cast<double>(options.stages - 1) / passes;
  for (const bool overlap : {false, true}) {
    options.overlap_p2p = overlap;
    const double took = step_ms(options, forward_ms, backward_ms);
    std::printf(
        "overlap_p2p %-5s  step %8.1f ms  ideal %8.1f ms  idle / ideal %.4f, formula %.4f\n",
        overlap ? "true" : "false", took, ideal, took / ideal - 1, formula);
  }
  return 0;
}
