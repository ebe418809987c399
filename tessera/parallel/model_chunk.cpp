#include "tessera/parallel/model_chunk.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iterator>

#include "tessera/base/error.h"

namespace tessera {

namespace {

// Of inputs below which nothing is trained. What goes to another stage is told to be zero.
std::vector<at::Tensor> no_gradients(const std::vector<at::Tensor>& inputs, bool of_chunk) {
  std::vector<at::Tensor> gradients(inputs.size());
  for (size_t i = 0; of_chunk && i < inputs.size(); ++i) {
    if (inputs[i].is_floating_point()) gradients[i] = at::zeros_like(inputs[i]);
  }
  return gradients;
}

}  // namespace

ModelChunk::ModelChunk(std::vector<Call> calls, Resharding resharding,
                       std::function<void(LayerContext&)> prepare)
    : calls_(std::move(calls)), resharding_(resharding), prepare_(std::move(prepare)) {
  for (const Call& call : calls_) {
    for (ShardedUnit* unit : call.units) unit->add_use();
  }
}

void ModelChunk::unshard(size_t call) {
  const TimelineSpan span(timeline_, "gather", calls_[call].name);
  for (ShardedUnit* unit : calls_[call].units) unit->unshard();
}

void ModelChunk::prefetch(size_t call) {
  for (ShardedUnit* unit : calls_[call].units) unit->prefetch();
}

void ModelChunk::end_use(size_t call, bool free, size_t next) {
  for (ShardedUnit* unit : calls_[call].units) {
    const bool used_next = next < calls_.size() &&
                           std::ranges::find(calls_[next].units, unit) != calls_[next].units.end();
    unit->end_use(free && !used_next && !resharding_.keep_all_step);
  }
}

ModelChunk::Saved ModelChunk::run(const Call& call, const std::vector<at::Tensor>& inputs,
                                  const LayerContext& context, bool keep_graph) {
  Saved saved;
  for (const at::Tensor& input : inputs) {
    at::Tensor leaf = input.detach();
    if (keep_graph && call.trains_before && leaf.is_floating_point()) leaf.set_requires_grad(true);
    saved.inputs.push_back(std::move(leaf));
  }
  const at::AutoGradMode grad_mode(keep_graph);
  saved.outputs = call.forward(saved.inputs, context);
  return saved;
}

ModelChunk::ForwardRun ModelChunk::begin_forward(std::vector<at::Tensor> inputs,
                                                 LayerContext& context) {
  if (prepare_) prepare_(context);
  ForwardRun run;
  run.chunk_ = this;
  run.frame_.context = &context;
  run.tensors_ = std::move(inputs);
  return run;
}

bool ModelChunk::ForwardRun::next_call() {
  if (next_ == chunk_->calls_.size()) return false;
  const Call& call = chunk_->calls_[next_];
  const TimelineSpan span(chunk_->timeline_, "forward", call.name, frame_.context->micro_batch);
  chunk_->unshard(next_);
  if (next_ + 1 < chunk_->calls_.size()) chunk_->prefetch(next_ + 1);
  Saved saved = chunk_->run(call, tensors_, *frame_.context, call.trains && !call.recompute);
  tensors_.clear();
  const size_t passed_on = saved.outputs.size() - call.losses;
  for (size_t o = 0; o < passed_on; ++o) tensors_.push_back(saved.outputs[o].detach());
  if (call.recompute || !call.trains) saved.outputs.clear();
  frame_.calls.push_back(std::move(saved));
  chunk_->end_use(next_, call.reshard_after_forward, next_ + 1);
  ++next_;
  return true;
}

std::vector<at::Tensor> ModelChunk::ForwardRun::take_outputs() {
  const int64_t micro_batch = frame_.context->micro_batch;
  const bool added = chunk_->frames_.emplace(micro_batch, std::move(frame_)).second;
  TESSERA_CHECK(added, "micro-batch ", micro_batch, " is already in flight");
  return std::move(tensors_);
}

std::vector<at::Tensor> ModelChunk::look(std::vector<at::Tensor> inputs, LayerContext& context) {
  if (prepare_) prepare_(context);
  const auto after = [this](size_t call) {
    do ++call;
    while (call < calls_.size() && calls_[call].only_trains);
    return call;
  };
  for (size_t index = 0; index < calls_.size(); index = after(index)) {
    const Call& call = calls_[index];
    const TimelineSpan span(timeline_, "forward", call.name, context.micro_batch);
    unshard(index);
    const size_t next = after(index);
    if (next < calls_.size()) prefetch(next);
    Saved saved = run(call, inputs, context, /*keep_graph=*/false);
    saved.outputs.resize(saved.outputs.size() - call.losses);
    inputs = std::move(saved.outputs);
    end_use(index, /*free=*/true, next);
  }
  return inputs;
}

ModelChunk::BackwardRun ModelChunk::begin_backward(std::vector<at::Tensor> output_grads,
                                                   int64_t micro_batch, bool last_micro_batch) {
  const auto found = frames_.find(micro_batch);
  TESSERA_CHECK(found != frames_.end(), "no forward of micro-batch ", micro_batch);
  BackwardRun run;
  run.chunk_ = this;
  run.frame_ = std::move(found->second);
  frames_.erase(found);
  run.grads_ = std::move(output_grads);
  run.left_ = calls_.size();
  run.defer_ = resharding_.reduce_once && !last_micro_batch;
  return run;
}

bool ModelChunk::BackwardRun::next_call() {
  if (left_ == 0) return false;
  --left_;
  const Call& call = chunk_->calls_[left_];
  Saved saved = std::move(frame_.calls[left_]);
  if (!call.trains) {
    grads_ = no_gradients(saved.inputs, left_ == 0);
    return true;
  }
  const TimelineSpan span(chunk_->timeline_, "backward", call.name, frame_.context->micro_batch);
  chunk_->unshard(left_);
  if (left_ > 0 && chunk_->calls_[left_ - 1].trains) chunk_->prefetch(left_ - 1);
  if (call.recompute) {
    LayerContext again = *frame_.context;
    again.recompute = true;
    saved = chunk_->run(call, saved.inputs, again, true);
  }
  grads_ = chunk_->differentiate(left_, std::move(saved), std::move(grads_), defer_);
  return true;
}

std::vector<at::Tensor> ModelChunk::BackwardRun::take_input_grads() { return std::move(grads_); }

std::vector<at::Tensor> ModelChunk::differentiate(size_t index, Saved saved,
                                                  std::vector<at::Tensor> output_grads,
                                                  bool defer) {
  const Call& call = calls_[index];
  for (size_t l = 0; l < call.losses; ++l) {
    output_grads.push_back(at::ones_like(saved.outputs[output_grads.size()]));
  }
  std::vector<at::Tensor> wanted;
  for (const at::Tensor& input : saved.inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  std::vector<ShardedUnit*> trained;
  for (ShardedUnit* unit : call.units) {
    if (unit->is_frozen()) continue;
    trained.push_back(unit);
    for (const Weight* weight : unit->weights()) wanted.push_back(weight->value);
  }
  // The loss of a frozen router over inputs without a gradient is a constant.
  std::vector<at::Tensor> roots, seeds;
  for (size_t o = 0; o < saved.outputs.size(); ++o) {
    if (!saved.outputs[o].requires_grad()) continue;
    roots.push_back(std::move(saved.outputs[o]));
    seeds.push_back(std::move(output_grads[o]));
  }
  saved.outputs.clear();
  output_grads.clear();
  std::vector<at::Tensor> grads =
      torch::autograd::grad(roots, wanted, seeds, /*retain_graph=*/false, /*create_graph=*/false,
                            /*allow_unused=*/true);
  roots.clear();
  size_t next = 0;
  std::vector<at::Tensor> input_grads =
      no_gradients(saved.inputs, index == 0 && !call.trains_before);
  for (size_t i = 0; i < saved.inputs.size(); ++i) {
    if (saved.inputs[i].requires_grad()) input_grads[i] = grads[next++];
  }
  end_use(index, /*free=*/true, index - 1);  // the first call has no next one: index - 1 wraps
  const TimelineSpan span(timeline_, "reduce", call.name);
  // The gradients of the call that was differentiated before were reduced while this one ran. They
  // are awaited here, so that full gradients of two calls exist at most.
  for (ShardedUnit* unit : reducing_) unit->wait_reduce();
  reducing_ = trained;
  for (ShardedUnit* unit : trained) {
    const auto count = static_cast<std::ptrdiff_t>(unit->weights().size());
    const auto first = grads.begin() + static_cast<std::ptrdiff_t>(next);
    unit->add_gradients({std::make_move_iterator(first), std::make_move_iterator(first + count)},
                        defer);
    next += static_cast<size_t>(count);
  }
  return input_grads;
}

void ModelChunk::finish_step() {
  const TimelineSpan span(timeline_, "reduce", "rest");
  reducing_.clear();
  for (const Call& call : calls_) {
    for (ShardedUnit* unit : call.units) {
      unit->wait_reduce();
      unit->reshard();
    }
  }
}

}  // namespace tessera
