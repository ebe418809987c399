#include "tessera/parallel/pipeline_runtime.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/turns.h"
#include "tessera/schedule/make_schedule.h"

namespace tessera {
namespace {

// Adds its own lifetime to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

PipelineRuntime::PipelineRuntime(const ScheduleOptions& options, std::vector<ModelChunk>& chunks,
                                 const ProcessGroup& stages, int64_t hidden, at::ScalarType dtype)
    : options_(options),
      chunks_(chunks),
      stages_(stages),
      hidden_(hidden),
      dtype_(dtype),
      actions_(make_schedule(options).ranks.at(static_cast<size_t>(stages.rank()))) {
  if (options.overlap_b_f && !stages.overlaps_compute() &&
      stages.ranks()[static_cast<size_t>(stages.rank())] == 0) {
    log_info(
        "pipeline_parallel_overlap_b_f: ranks are threads, whose messages take no time to hide");
  }
}

void PipelineRuntime::set_timeline(Timeline* timeline) {
  timeline_ = timeline;
  for (ModelChunk& chunk : chunks_) chunk.set_timeline(timeline);
}

void PipelineRuntime::set_micro_batches(int64_t micro_batches) {
  if (micro_batches == options_.micro_batches) return;
  options_.micro_batches = micro_batches;
  actions_ = make_schedule(options_).ranks.at(static_cast<size_t>(stages_.rank()));
}

void PipelineRuntime::run(std::vector<LayerContext>& contexts) {
  TESSERA_CHECK_EQ(static_cast<int64_t>(contexts.size()), options_.micro_batches);
  const Stopwatch stopwatch(times_.running);
  backwards_.assign(chunks_.size(), 0);
  peak_live_ = 0;
  for (const Action& action : actions_) execute(action, contexts);
  for (ModelChunk& chunk : chunks_) chunk.finish_step();
}

// A group of micro-batches runs through the first chunks of all stages, then through the second
// ones, and so on: what arrives and is not used yet is one group's.
void PipelineRuntime::look(std::vector<LayerContext>& contexts) {
  const auto group = static_cast<size_t>(options_.stages);
  for (size_t first = 0; first < contexts.size(); first += group) {
    const size_t last = std::min(first + group, contexts.size());
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      for (size_t i = first; i < last; ++i) look_at(chunk, contexts[i]);
    }
  }
  for (ModelChunk& chunk : chunks_) chunk.finish_step();
}

void PipelineRuntime::look_at(size_t chunk, LayerContext& context) {
  const int stage = stages_.rank(), last = stages_.size() - 1;
  const auto tag = static_cast<int64_t>(chunk);
  std::vector<at::Tensor> inputs;
  if (stage > 0 || chunk > 0) {
    if (last == 0) {
      inputs = {passed_on_.extract(context.micro_batch).mapped()};
    } else {
      const auto [begin, end] = context.residual_tokens;
      inputs = {at::empty({end - begin, hidden_},
                          at::TensorOptions().dtype(dtype_).device(stages_.device()))};
      stages_.recv(inputs[0], stage == 0 ? last : stage - 1, stage == 0 ? tag - 1 : tag).wait();
    }
  }
  std::vector<at::Tensor> outputs = chunks_[chunk].look(std::move(inputs), context);
  if (stage == last && chunk + 1 == chunks_.size()) return;
  if (last == 0) {
    passed_on_[context.micro_batch] = std::move(outputs.at(0));
  } else {
    stages_.send(outputs.at(0).contiguous(), stage == last ? 0 : stage + 1, tag).wait();
  }
}

void PipelineRuntime::execute(const Action& action, std::vector<LayerContext>& contexts) {
  if (on_action_) on_action_(action);
  switch (action.kind) {
    case ActionKind::kForward: return forward(forward_pass(action), contexts);
    case ActionKind::kBackward: return backward(backward_pass(action));
    case ActionKind::kOverlapForwardBackward: return overlap(action, contexts);
    case ActionKind::kRecvForward: return receive(action, inputs_, contexts);
    case ActionKind::kRecvBackward: return receive(action, output_grads_, contexts);
    case ActionKind::kSendForward: return send(action, outputs_);
    case ActionKind::kSendBackward: return send(action, input_grads_);
  }
}

void PipelineRuntime::forward(const Pass& pass, std::vector<LayerContext>& contexts) {
  ModelChunk::ForwardRun run = begin_forward(pass, contexts);
  while (run.next_call()) {
  }
  end_forward(pass, run);
}

void PipelineRuntime::backward(const Pass& pass) {
  ModelChunk::BackwardRun run = begin_backward(pass);
  while (run.next_call()) {
  }
  end_backward(pass, run);
}

// While one of the two waits, also inside of a layer (for a gather, a reduction, an all-to-all),
// the other computes. Where no operation goes on while its members compute, the two run call by
// call on one thread.
void PipelineRuntime::overlap(const Action& action, std::vector<LayerContext>& contexts) {
  if (stages_.overlaps_compute()) {
    in_turns_ = true;
    run_in_turns([&] { backward(backward_pass(action)); },
                 [&] { forward(forward_pass(action), contexts); }, timeline_);
    in_turns_ = false;
    return;
  }
  ModelChunk::BackwardRun backward = begin_backward(backward_pass(action));
  ModelChunk::ForwardRun forward = begin_forward(forward_pass(action), contexts);
  bool more_backward = true, more_forward = true;
  while (more_backward || more_forward) {
    if (more_backward) more_backward = backward.next_call();
    if (more_forward) more_forward = forward.next_call();
  }
  end_backward(backward_pass(action), backward);
  end_forward(forward_pass(action), forward);
}

ModelChunk::ForwardRun PipelineRuntime::begin_forward(const Pass& pass,
                                                      std::vector<LayerContext>& contexts) {
  LayerContext& context = contexts[static_cast<size_t>(pass.micro_batch)];
  std::vector<at::Tensor> inputs;
  if (pass.virtual_stage > 0) inputs.push_back(take(inputs_, {pass.chunk, pass.micro_batch}));
  return chunks_[static_cast<size_t>(pass.chunk)].begin_forward(std::move(inputs), context);
}

void PipelineRuntime::end_forward(const Pass& pass, ModelChunk::ForwardRun& run) {
  std::vector<at::Tensor> outputs = run.take_outputs();
  int64_t live = 0;
  for (const ModelChunk& chunk : chunks_) live += static_cast<int64_t>(chunk.live());
  peak_live_ = std::max(peak_live_, live);
  if (pass.virtual_stage + 1 == options_.virtual_stages()) return;
  if (options_.stages == 1) {
    inputs_[{pass.chunk + 1, pass.micro_batch}] = {std::move(outputs.at(0)), {}};
  } else {
    outputs_[{pass.chunk, pass.micro_batch}] = std::move(outputs.at(0));
  }
}

ModelChunk::BackwardRun PipelineRuntime::begin_backward(const Pass& pass) {
  std::vector<at::Tensor> grads;
  if (pass.virtual_stage + 1 < options_.virtual_stages()) {
    grads.push_back(take(output_grads_, {pass.chunk, pass.micro_batch}));
  }
  const auto chunk = static_cast<size_t>(pass.chunk);
  const bool last = ++backwards_[chunk] == options_.micro_batches;
  return chunks_[chunk].begin_backward(std::move(grads), pass.micro_batch, last);
}

void PipelineRuntime::end_backward(const Pass& pass, ModelChunk::BackwardRun& run) {
  std::vector<at::Tensor> grads = run.take_input_grads();
  if (pass.virtual_stage == 0) return;
  if (options_.stages == 1) {
    output_grads_[{pass.chunk - 1, pass.micro_batch}] = {std::move(grads.at(0)), {}};
  } else {
    input_grads_[{pass.chunk, pass.micro_batch}] = std::move(grads.at(0));
  }
}

void PipelineRuntime::receive(const Action& action, std::map<Key, Incoming>& box,
                              const std::vector<LayerContext>& contexts) {
  const TimelineSpan span(timeline_, "receive", {}, action.micro_batch);
  const auto [begin, end] = contexts[static_cast<size_t>(action.micro_batch)].residual_tokens;
  Incoming incoming;
  incoming.tensor =
      at::empty({end - begin, hidden_}, at::TensorOptions().dtype(dtype_).device(stages_.device()));
  incoming.work = stages_.recv(incoming.tensor, static_cast<int>(action.peer), action.tag);
  if (!options_.overlap_p2p) wait_for(incoming.work);
  box[{action.chunk, action.micro_batch}] = std::move(incoming);
}

void PipelineRuntime::send(const Action& action, std::map<Key, at::Tensor>& box) {
  const auto found = box.find({action.chunk, action.micro_batch});
  TESSERA_CHECK(found != box.end(), "nothing to send for ", to_string(action));
  const TimelineSpan span(timeline_, "send", {}, action.micro_batch);
  const at::Tensor tensor = found->second.contiguous();
  box.erase(found);
  stages_.send(tensor, static_cast<int>(action.peer), action.tag).wait();  // buffered
}

void PipelineRuntime::wait_for(Work& work) {
  if (in_turns_) return work.wait();
  const Stopwatch stopwatch(times_.waiting);
  work.wait();
}

at::Tensor PipelineRuntime::take(std::map<Key, Incoming>& box, const Key& key) {
  const auto found = box.find(key);
  TESSERA_CHECK(found != box.end(), "chunk ", key.first, " has nothing for micro-batch ",
                key.second);
  {
    const TimelineSpan span(timeline_, "receive", {}, key.second);
    wait_for(found->second.work);
  }
  at::Tensor tensor = std::move(found->second.tensor);
  box.erase(found);
  return tensor;
}

}  // namespace tessera
