#include "tessera/train/trainer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/memory.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/optim/grad_norm.h"
#include "tessera/optim/lr_schedule.h"
#include "tessera/planner/flops.h"
#include "tessera/rules/derive.h"
#include "tessera/train/dataset.h"
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

}  // namespace

Trainer::Trainer(Config config, const ProcessGroup& world, TrainerOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      mesh_(derive_dims(config_, world.size()), world),
      plan_(make_batch_plan(config_.training, mesh_.dims())),
      model_(parallelize(config_, mesh_)) {
  const ScheduleOptions schedule = schedule_options(config_, plan_);
  pipeline_ = std::make_unique<PipelineRuntime>(
      schedule, model_->chunks, plant_in_pipeline(options_.faults, mesh_["pp"], schedule),
      config_.model.hidden_size, scalar_type(config_.model.compute_dtype),
      [this](LayerContext& context) { model_->decoders.front()->prepare(context); });
  pipeline_->set_timeline(options_.timeline);
  optimizer_ = make_optimizer(config_.optimizer, model_->table);
  checkpoints_ = std::make_unique<RunCheckpoints>(config_, plan_, options_.source->size(), *model_,
                                                  *optimizer_, mesh_, options_.families);
  step_ = checkpoints_->start();
  auto loader = std::make_shared<const Loader>(
      options_.source, loader_options(config_, mesh_.dims(), plan_, mesh_.rank()));
  last_step_ = config_.training.steps;
  if (options_.stop_after > 0) last_step_ = std::min(last_step_, options_.stop_after);
  loader_ = std::make_unique<StepPrefetcher>(loader, step_, last_step_);
  plant_before_training(options_.faults, *model_, mesh_);
  if (options_.on_model) options_.on_model(*model_, mesh_);
  reset_peak_memory(memory_rank());
}

int Trainer::run() {
  try {
    while (step_ < last_step_ && !stop_) {
      train_step();
      checkpoints_->after_step(step_, !writing_);
    }
  } catch (const NonFiniteError&) {
    checkpoints_->complete();  // thrown on every rank alike: what was saved before is kept
    throw;
  } catch (const CommError& error) {
    throw CommError(detail::concat("step ", step_ + 1, ": ", error.what()));
  }
  checkpoints_->finish(step_);
  if (!stop_) return 0;
  // Not every rank has to have got it.
  const at::Tensor signal = at::scalar_tensor(
      options_.stop_signal != nullptr ? options_.stop_signal->load() : 0, at::kLong);
  mesh_["world"].all_reduce({signal}, ReduceOp::kMax).wait();
  return signal.item<int>();
}

StepMetrics Trainer::train_step() {
  const auto start = std::chrono::steady_clock::now();
  Timeline* const timeline = options_.timeline;
  const TimelineSpan step_span(timeline, "step");
  StepMetrics metrics;
  metrics.step = step_ + 1;
  metrics.lr = learning_rate(config_.lr_scheduler, config_.training.steps, step_);

  // This rank's micro-batches, and the one denominator of every loss: labels that count in the
  // whole global batch.
  std::vector<MicroBatch> batch = [&] {
    const TimelineSpan span(timeline, "load");
    return loader_->next();
  }();
  at::Tensor counts = at::tensor(
      {unmasked_tokens(batch), real_positions(batch), next_unmasked_tokens(batch)}, at::kLong);
  mesh_["loss"].all_reduce({counts}).wait();
  metrics.tokens = counts[0].item<int64_t>();
  metrics.updated = metrics.tokens > 0;

  // Forward and backward of all micro-batches; gradients end in the table, summed where units did.
  Sinks sinks;
  ContextOptions context;
  context.step = step_;
  context.seed = static_cast<uint64_t>(config_.training.seed);
  context.loss_scale = metrics.updated ? 1.0 / static_cast<double>(metrics.tokens) : 0.0;
  context.sample_scale = 1.0 / static_cast<double>(plan_.effective_batch);
  context.position_scale =
      1.0 / static_cast<double>(std::max<int64_t>(1, counts[1].item<int64_t>()));
  context.next_loss_scale = config_.model.mtp_loss_factor.value_or(0.0) /
                            static_cast<double>(std::max<int64_t>(1, counts[2].item<int64_t>()));
  context.device = mesh_.device();
  context.timeline = timeline;
  context.tp_rank = mesh_.coordinate("tp");
  context.tp_degree = mesh_.size("tp");
  std::vector<LayerContext> contexts = make_contexts(batch, context, &sinks);
  plant_in_batch(options_.faults, contexts, mesh_);
  pipeline_->run(contexts);

  // What is still partial; then every rank has its boxes of the true gradient.
  {
    const TimelineSpan span(timeline, "reduce", "partial gradients");
    finish_gradients(model_->table, mesh_);
  }
  if (options_.on_gradients) options_.on_gradients(metrics.step, model_->table, mesh_);

  // The norm counts each logical element once; loss, norm and signals travel as one message.
  plant_in_loss(options_.faults, sinks, metrics.step, mesh_.rank());
  const bool asked = options_.stop_signal != nullptr && options_.stop_signal->load() != 0;
  StepSums sums(sinks, counted_squares(model_->table), asked, config_.model, mesh_);
  sums.writing = checkpoints_->writing() ? 1.0 : 0.0;
  sums.take_memory(mesh_);
  sums.sum(mesh_["world"]);
  if (!std::isfinite(sums.loss) || !std::isfinite(sums.squares)) {
    report_non_finite(sums, sinks, batch);
  }
  sums.report(metrics, config_.model);
  stop_ = sums.stop > 0;
  writing_ = sums.writing > 0;

  if (metrics.updated) {
    const TimelineSpan span(timeline, "update");
    optimizer_->step(metrics.lr, clip_coefficient(metrics.grad_norm, config_.training.max_norm));
    update_router_biases(*model_, sums.tokens_per_expert, config_.model);
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
    for (const MicroBatch& b : batch)
      ids = std::copy(b.sample_ids.begin(), b.sample_ids.end(), ids);
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
