#include "tessera/train/trainer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/derive.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/optim/grad_norm.h"
#include "tessera/optim/lr_schedule.h"
#include "tessera/planner/flops.h"
#include "tessera/train/dataset.h"
#include "tessera/train/load_weights.h"
#include "tessera/train/plant.h"
#include "tessera/train/step_context.h"

namespace tessera {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ScheduleOptions schedule_options(const Config& config, const BatchPlan& plan) {
  const ParallelismConfig& p = config.parallelism;
  ScheduleOptions options;
  options.stages = p.pipeline_parallel;
  options.chunks = p.pipeline_parallel > 1 ? p.pipeline_parallel_interleave_num : 1;
  options.kind = kind_for_chunks(options.chunks);
  options.micro_batches = plan.micro_batches;
  options.overlap_p2p = p.pipeline_parallel_overlap_p2p;
  options.overlap_b_f = p.pipeline_parallel_overlap_b_f && p.pipeline_parallel > 1;
  return options;
}

double summed_loss(const Sinks& sinks) {
  double sum = 0;
  for (const auto& [micro_batch, loss] : sinks.loss) sum += loss.item<double>();
  return sum;
}

}  // namespace

Trainer::Trainer(Config config, const ProcessGroup& world, TrainerOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      mesh_(derive_dims(config_, world.size()), world),
      plan_(make_batch_plan(config_.training, mesh_.dims())),
      model_(parallelize(config_, mesh_)) {
  if (config_.checkpoint.load_path.empty()) {
    initialize(*model_, config_);
  } else {
    load_hf_weights(*model_, config_, config_.checkpoint.load_path);
  }
  pipeline_ = std::make_unique<PipelineRuntime>(
      schedule_options(config_, plan_), model_->chunks, mesh_["pp"], config_.model.hidden_size,
      scalar_type(config_.model.compute_dtype),
      [this](LayerContext& context) { model_->decoders.front()->prepare(context); });
  optimizer_ = make_optimizer(config_.optimizer, model_->table);
  auto loader = std::make_shared<const Loader>(
      options_.source, loader_options(config_, mesh_.dims(), plan_, mesh_.rank()));
  last_step_ = config_.training.steps;
  if (options_.stop_after > 0) last_step_ = std::min(last_step_, options_.stop_after);
  loader_ = std::make_unique<StepPrefetcher>(loader, step_, last_step_);
  plant_before_training(options_.faults, *model_, mesh_);
}

int Trainer::run() {
  while (step_ < last_step_ && !stop_) train_step();
  return stop_ ? options_.stop_signal->load() : 0;
}

StepMetrics Trainer::train_step() {
  const auto start = std::chrono::steady_clock::now();
  StepMetrics metrics;
  metrics.step = step_ + 1;
  metrics.lr = learning_rate(config_.lr_scheduler, config_.training.steps, step_);

  // This rank's micro-batches, and the one denominator of every loss: labels that count in the
  // whole global batch.
  std::vector<MicroBatch> batch = loader_->next();
  at::Tensor tokens = at::scalar_tensor(static_cast<double>(unmasked_tokens(batch)), at::kDouble);
  mesh_["loss"].all_reduce({tokens}).wait();
  metrics.tokens = static_cast<int64_t>(tokens.item<double>());
  metrics.updated = metrics.tokens > 0;

  // Forward and backward of all micro-batches; gradients end in the table, summed where units did.
  Sinks sinks;
  ContextOptions context;
  context.step = step_;
  context.seed = static_cast<uint64_t>(config_.training.seed);
  context.loss_scale = metrics.updated ? 1.0 / static_cast<double>(metrics.tokens) : 0.0;
  context.tp_rank = mesh_.coordinate("tp");
  context.tp_degree = mesh_.size("tp");
  std::vector<LayerContext> contexts = make_contexts(batch, context, &sinks);
  plant_in_batch(options_.faults, contexts);
  pipeline_->run(contexts);

  // What is still partial; then every rank has its boxes of the true gradient.
  finish_gradients(model_->table, mesh_);
  if (options_.on_gradients) options_.on_gradients(metrics.step, model_->table, mesh_);

  // The norm counts each logical element once; loss, norm and signals travel as one message.
  plant_in_loss(options_.faults, sinks, metrics.step, mesh_.rank());
  const StepSums sums = sum_over_world(sinks);
  if (!std::isfinite(sums.loss) || !std::isfinite(sums.squares)) {
    report_non_finite(sums, sinks, batch);
  }
  metrics.loss = sums.loss;
  metrics.grad_norm = std::sqrt(sums.squares);
  stop_ = sums.stop;

  if (metrics.updated) {
    optimizer_->step(metrics.lr, clip_coefficient(metrics.grad_norm, config_.training.max_norm));
  } else if (mesh_.rank() == 0) {
    log_warning("step " + std::to_string(metrics.step) + ": no label counts; nothing is updated");
  }
  for (const auto& param : model_->table.params()) param->grad.reset();
  ++step_;

  const auto samples = static_cast<double>(plan_.effective_batch);
  const auto seq_length = static_cast<double>(config_.train_dataset.dataloader.config.seq_length);
  metrics.samples = step_ * plan_.effective_batch;
  metrics.seconds = seconds_since(start);
  metrics.tokens_per_second = samples * seq_length / metrics.seconds;
  metrics.tflops_per_rank = model_flops(config_.model, samples, seq_length) / metrics.seconds /
                            1e12 / static_cast<double>(mesh_.dims().world);
  if (options_.on_step) options_.on_step(metrics, model_->table, mesh_);
  return metrics;
}

Trainer::StepSums Trainer::sum_over_world(const Sinks& sinks) {
  // The ranks of a tp group compute the same loss: one of them counts it.
  const double loss = mesh_.coordinate("tp") == 0 ? summed_loss(sinks) : 0.0;
  const bool asked = options_.stop_signal != nullptr && options_.stop_signal->load() != 0;
  at::Tensor sums = at::tensor({loss, counted_squares(model_->table), asked ? 1.0 : 0.0}, at::kDouble);
  mesh_["world"].all_reduce({sums}).wait();
  const auto* values = sums.const_data_ptr<double>();
  return {values[0], values[1], values[2] > 0};
}

void Trainer::report_non_finite(const StepSums& sums, const Sinks& sinks,
                                const std::vector<MicroBatch>& batch) {
  // Every rank is here. The first whose own loss is not finite is named, with its samples; when all
  // losses are finite, the first whose own gradients are not.
  const bool bad_loss = !std::isfinite(summed_loss(sinks));
  const bool bad_norm = !std::isfinite(counted_squares(model_->table));
  const auto none = static_cast<double>(mesh_.dims().world);
  const auto me = static_cast<double>(mesh_.rank());
  at::Tensor first = at::tensor({bad_loss ? me : none, bad_norm ? me : none}, at::kDouble);
  mesh_["world"].all_reduce({first}, ReduceOp::kMin).wait();
  const auto* values = first.const_data_ptr<double>();
  const double culprit = values[0] < none ? values[0] : values[1];

  at::Tensor samples = at::zeros({plan_.local_batch * plan_.micro_batches}, at::kLong);
  if (me == culprit) {
    int64_t* ids = samples.mutable_data_ptr<int64_t>();
    for (const MicroBatch& b : batch) ids = std::copy(b.sample_ids.begin(), b.sample_ids.end(), ids);
  }
  mesh_["world"].all_reduce({samples}).wait();
  std::string list;
  for (int64_t i = 0; i < samples.numel(); ++i) {
    list += (i ? ", " : "") + std::to_string(samples[i].item<int64_t>());
  }
  throw NonFiniteError(detail::concat("step ", step_ + 1, ": ",
                                      std::isfinite(sums.loss) ? "gradient norm" : "loss",
                                      " is not finite, first on rank ", static_cast<int>(culprit),
                                      " (samples ", list, "); nothing was updated"));
}

}  // namespace tessera
