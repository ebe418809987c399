#pragma once

// Runs one rank's list of a PipelineSchedule: its forwards, backwards and messages, exactly those,
// in that order. When weights are gathered and freed and gradients reduced is the chunks' own
// policy (model_chunk.h). A run without a pipeline is the schedule of one stage.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/nn/layer_context.h"
#include "tessera/parallel/model_chunk.h"
#include "tessera/schedule/pipeline_schedule.h"

namespace tessera {

class PipelineRuntime {
 public:
  /// `chunks` are this rank's, in the order of their virtual stages, and must outlive it. What
  /// crosses a boundary is [residual tokens, hidden] of type `dtype`.
  PipelineRuntime(const ScheduleOptions& options, std::vector<ModelChunk>& chunks,
                  const ProcessGroup& stages, int64_t hidden, at::ScalarType dtype);

  /// From now on a step has so many micro-batches.
  void set_micro_batches(int64_t micro_batches);

  /// All micro-batches of a step, forward and backward; gradients are reduced when it returns.
  /// contexts[i] is micro-batch i.
  void run(std::vector<LayerContext>& contexts);

  /// The forwards alone of any number of micro-batches, in groups of as many as there are stages.
  void look(std::vector<LayerContext>& contexts);

  /// Records messages and the chunks' calls; must outlive it.
  void set_timeline(Timeline* timeline);

  /// Called in front of each action of a step.
  void set_on_action(std::function<void(const Action&)> on_action) {
    on_action_ = std::move(on_action);
  }

  const std::vector<Action>& actions() const { return actions_; }
  /// Most (chunk, micro-batch) pairs at one time of the last run whose forward had run and whose
  /// backward had not.
  int64_t peak_live() const { return peak_live_; }

  /// Seconds inside of run(), of all runs, and how many of them passed in waits for what another
  /// stage computes. Waits of two passes that take turns (overlap_b_f) are not counted.
  struct Times {
    double running = 0;
    double waiting = 0;
  };
  const Times& times() const { return times_; }

 private:
  using Key = std::pair<int64_t, int64_t>;  // chunk, micro-batch
  struct Incoming {
    at::Tensor tensor;
    Work work;
  };
  void look_at(size_t chunk, LayerContext& context);
  void execute(const Action& action, std::vector<LayerContext>& contexts);
  void forward(const Pass& pass, std::vector<LayerContext>& contexts);
  void backward(const Pass& pass);
  void overlap(const Action& action, std::vector<LayerContext>& contexts);
  ModelChunk::ForwardRun begin_forward(const Pass& pass, std::vector<LayerContext>& contexts);
  void end_forward(const Pass& pass, ModelChunk::ForwardRun& run);
  ModelChunk::BackwardRun begin_backward(const Pass& pass);
  void end_backward(const Pass& pass, ModelChunk::BackwardRun& run);
  void receive(const Action& action, std::map<Key, Incoming>& box,
               const std::vector<LayerContext>& contexts);
  void send(const Action& action, std::map<Key, at::Tensor>& box);
  at::Tensor take(std::map<Key, Incoming>& box, const Key& key);
  void wait_for(Work& work);

  ScheduleOptions options_;
  std::vector<ModelChunk>& chunks_;
  ProcessGroup stages_;
  int64_t hidden_;
  at::ScalarType dtype_;
  std::vector<Action> actions_;

  std::map<int64_t, at::Tensor> passed_on_;          // of look(), between chunks of one stage
  std::map<Key, Incoming> inputs_, output_grads_;    // arrived or made here, for this rank's use
  std::map<Key, at::Tensor> outputs_, input_grads_;  // to be sent
  int64_t peak_live_ = 0;
  Times times_;
  bool in_turns_ = false;
  std::vector<int64_t> backwards_;  // done, by chunk
  Timeline* timeline_ = nullptr;
  std::function<void(const Action&)> on_action_;
};

}  // namespace tessera
