#include "tessera/train/trainer.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/memory.h"
#include "tessera/layout/loader_options.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/optim/grad_norm.h"
#include "tessera/optim/lr_schedule.h"
#include "tessera/parallel/experts/router_biases.h"
#include "tessera/parallel/kept_modules.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/planner/flops.h"
#include "tessera/rules/derive.h"
#include "tessera/train/make_contexts.h"
#include "tessera/train/max_logits.h"
#include "tessera/train/parity/inject_faults.h"

namespace tessera {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// 1 / count; where nothing counts, nothing is to be scaled: 0.
double one_over(int64_t count) { return count > 0 ? 1.0 / static_cast<double>(count) : 0.0; }

std::vector<std::vector<double>> by_layer(const at::Tensor& all_LH) {
  std::vector<std::vector<double>> layers;
  for (int64_t layer = 0; layer < all_LH.size(0); ++layer) {
    const double* first = all_LH[layer].const_data_ptr<double>();
    layers.emplace_back(first, first + all_LH.size(1));
  }
  return layers;
}

// Sums over all ranks that hold other tokens of the step.
StepCounts sum_over_ranks(const StepCounts& own, const DeviceMesh& mesh) {
  const at::Tensor all = at::tensor({own.labels, own.next_labels, own.tokens}, at::kLong);
  mesh[Axis::kLoss].all_reduce({all}).wait();
  const auto* sums = all.const_data_ptr<int64_t>();
  return {sums[0], sums[1], sums[2]};
}

}  // namespace

Trainer::Trainer(Config config, const ProcessGroup& world, TrainerOptions options)
    : config_(std::move(config)),
      options_(std::move(options)),
      mesh_(derive_dims(config_, world.size()), world),
      plan_(make_batch_plan(config_, mesh_.dims())),
      model_(parallelize(config_, mesh_)),
      spikes_(config_.elastic.spike) {
  begin(RankWork::kBuilds);
  const ScheduleOptions schedule = pipeline_options(config_.parallelism, plan_.micro_batches);
  pipeline_ = std::make_unique<PipelineRuntime>(
      schedule, model_->chunks, inject_in_pipeline(options_.faults, mesh_[Axis::kPp], schedule),
      config_.model.hidden_size, scalar_type(config_.model.compute_dtype));
  pipeline_->set_timeline(options_.timeline);
  if (options_.page) {
    pipeline_->set_on_action([this](const Action& action) {
      if (has_forward(action)) begin(RankWork::kForward, action.micro_batch);
      if (action.kind == ActionKind::kBackward) begin(RankWork::kBackward, action.micro_batch);
    });
    if (mesh_.rank() == 0) stragglers_.emplace(mesh_.dims());
  }
  optimizer_ = make_optimizer(config_, model_->table, mesh_, options_.optimizers);
  updates_.emplace(batch_growth(config_.training, plan_), options_.source->size(),
                   config_.train_dataset.drop_remainder);
  checkpoints_ =
      std::make_unique<RunCheckpoints>(config_, *updates_, options_.source->size(), *model_,
                                       *optimizer_, mesh_, options_.families, options_.generation);
  state_ = checkpoints_->start();
  updates_ = updates_->without(state_.left_out);
  spikes_ = SpikeWatch(config_.elastic.spike, state_.norms);
  batches_ = std::make_shared<const Loader>(
      options_.source, loader_options(config_, mesh_.dims(), plan_, mesh_.rank()));
  last_step_ = config_.training.steps;
  if (options_.stop_after > 0) last_step_ = std::min(last_step_, options_.stop_after);
  begin_loading();
  train_state_ = std::make_unique<TrainStateMonitor>(config_.monitor.train_state, *model_);
  for (const EvalSet& set : options_.eval_sets) evaluations_.emplace_back(config_, set, mesh_);
  inject_before_training(options_.faults, *model_, mesh_);
  if (options_.on_model) options_.on_model(*model_, mesh_);
  update_use_.moments = optimizer_->state_bytes();
  reset_peak_memory(memory_rank());
}

void Trainer::begin(RankWork work, int64_t micro_batch) {
  if (options_.page) options_.page->set_work(work, micro_batch);
}

void Trainer::begin_loading() {
  loader_ = std::make_unique<StepPrefetcher>(batches_, *updates_, state_.next, last_step_);
}

int Trainer::run() {
  try {
    while (state_.next.step < last_step_ && !stop_) {
      train_step();
      begin(RankWork::kSaves);
      checkpoints_->after_step(state_, !writing_);
    }
  } catch (const NonFiniteError&) {
    checkpoints_->complete();  // thrown on every rank alike: what was saved before is kept
    throw;
  } catch (const CommError& error) {
    throw CommError(detail::concat("step ", state_.next.step + 1, ": ", error.what()));
  }
  begin(RankWork::kSaves);
  checkpoints_->finish(state_);
  if (!stop_) return 0;
  // The signal may have reached some of the ranks only: all return the same.
  const at::Tensor signal = at::scalar_tensor(
      options_.stop_signal != nullptr ? options_.stop_signal->load() : 0, at::kLong);
  mesh_[Axis::kWorld].all_reduce({signal}, ReduceOp::kMax).wait();
  return signal.item<int>();
}

StepContext Trainer::step_context(const StepCounts& counts) const {
  StepContext step;
  step.number = state_.next.step;
  step.seed = static_cast<uint64_t>(config_.training.seed);
  step.loss_scale = one_over(counts.labels);
  if (counts.next_labels > 0) {
    step.next_loss_scale =
        config_.model.mtp_loss_factor.value_or(0.0) / static_cast<double>(counts.next_labels);
  } else {
    step.next_loss_scale = 0.0;
  }
  step.sample_scale = one_over(plan_.effective_batch);
  step.position_scale = one_over(counts.tokens);
  step.device = mesh_.device();
  step.timeline = options_.timeline;
  return step;
}

StepMetrics Trainer::train_step() {
  const auto start = std::chrono::steady_clock::now();
  const auto waited_before =
      options_.page ? options_.page->waited() : std::chrono::nanoseconds::zero();
  begin(RankWork::kReads);
  Timeline* const timeline = options_.timeline;
  const TimelineSpan step_span(timeline, "step");
  StepMetrics metrics;
  const UpdateSpan& span = state_.next;
  plan_ = with_batch(plan_, span.batch);
  pipeline_->set_micro_batches(plan_.micro_batches);
  metrics.step = span.step + 1;
  metrics.batch = span.batch;
  metrics.grown_batch = updates_->growth().grows();
  // Rates go by updates: those that were skipped are none.
  metrics.lr =
      learning_rate(config_.lr_scheduler, config_.training.steps, span.step - state_.skipped);

  // This rank's micro-batches, and what counts in the whole global batch: every loss is divided by
  // it before it is summed.
  std::vector<MicroBatch> batch = [&] {
    const TimelineSpan span(timeline, "load");
    return loader_->next();
  }();
  const double reading = seconds_since(start);
  const StepCounts counts = sum_over_ranks(count(batch), mesh_);
  metrics.tokens = counts.labels;
  metrics.updated = counts.labels > 0;

  // Forward and backward of all micro-batches; gradients end in the table, summed where units did.
  Sinks sinks;
  KeptModules kept;
  StepContext step = step_context(counts);
  step.sinks = &sinks;
  step.kept = &kept;
  const bool shows_logits = reports_max_logits(config_, metrics.step);
  step.wants_max_logits = shows_logits || optimizer_->clips_heads();
  std::vector<LayerContext> contexts =
      make_contexts(batch, step, mesh_.coordinate(Axis::kTp), mesh_.size(Axis::kTp));
  inject_in_batch(options_.faults, contexts, mesh_);
  pipeline_->run(contexts);

  // What is still partial; then every rank has its boxes of the true gradient.
  {
    const TimelineSpan span(timeline, "reduce", "partial gradients");
    begin(RankWork::kReduces);
    finish_gradients(model_->table, mesh_);
  }
  if (options_.on_gradients) options_.on_gradients(metrics.step, model_->table, mesh_);

  // The norm counts each logical element once; loss, norm and signals travel as one message.
  inject_in_loss(options_.faults, sinks, metrics.step, mesh_.rank());
  const bool asked = options_.stop_signal != nullptr && options_.stop_signal->load() != 0;
  StepSums sums(sinks, counted_squares(model_->table), asked, config_.model, mesh_);
  sums.writing = checkpoints_->writing() ? 1.0 : 0.0;
  sums.take_memory(mesh_);
  sums.take_times(own_seconds_, reading_seconds_, mesh_);
  sums.sum(mesh_[Axis::kWorld]);
  const bool finite = std::isfinite(sums.loss) && std::isfinite(sums.squares);
  const double norm = std::sqrt(sums.squares);
  const bool spike = finite && metrics.updated && spikes_.is_spike(norm);
  const bool goes_back =
      spike && config_.elastic.spike.action == "rollback" && checkpoints_->can_go_back();
  watch_stragglers(sums);
  if (goes_back) {
    for (const auto& param : model_->table.params()) param->grad.reset();
    stop_ = sums.stop > 0;
    writing_ = false;
    go_back(norm);
    metrics.updated = false;
    return metrics;
  }
  if (finite && !spike) {
    state_.skipped_in_row = 0;
    if (metrics.updated) spikes_.add(norm);
    state_.norms = spikes_.norms();
  } else {
    if (spike) {
      skip_spike(norm);
    } else {
      skip_or_throw(sums, sinks, batch);
    }
    metrics.updated = false;
    metrics.skipped_in_row = state_.skipped_in_row;
    metrics.skipped = state_.skipped;
  }
  sums.report(metrics, config_.model);
  at::Tensor largest_logits;
  if (step.wants_max_logits) largest_logits = max_logits_of_world(sinks, config_.model, mesh_);
  if (shows_logits) metrics.max_logits = by_layer(largest_logits);
  stop_ = sums.stop > 0;
  writing_ = sums.writing > 0;

  if (metrics.updated) {
    const TimelineSpan span(timeline, "update");
    begin(RankWork::kUpdates);
    const int64_t before = memory_use(memory_rank()).current;
    optimizer_->step(metrics.lr, clip_coefficient(metrics.grad_norm, config_.training.max_norm));
    // Since sums.take_memory() a peak is this update's.
    update_use_.memory = std::max(update_use_.memory, memory_use(memory_rank()).peak - before);
    update_use_.flops = optimizer_->flops();
    if (optimizer_->clips_heads()) optimizer_->clip_heads(largest_logits);
    update_router_biases(*model_, sums.tokens_per_expert, config_.model);
  } else if (!finite || spike) {
    update_router_biases(*model_, sums.tokens_per_expert, config_.model);
  } else if (mesh_.rank() == 0) {
    log_warning("step " + std::to_string(metrics.step) + ": no label counts; nothing is updated");
  }
  for (const auto& param : model_->table.params()) param->grad.reset();
  check_copies(metrics.step);
  state_.last_batch = span.batch;
  state_.next = updates_->after(span);

  const auto batch_samples = static_cast<double>(plan_.effective_batch);
  const auto seq_length = static_cast<double>(config_.train_dataset.dataloader.config.seq_length);
  metrics.samples = samples();
  metrics.seconds = seconds_since(start);
  if (options_.page) {
    const std::chrono::duration<double> waited = options_.page->waited() - waited_before;
    own_seconds_ = metrics.seconds - waited.count();
    reading_seconds_ = reading;
  }
  metrics.tokens_per_second = batch_samples * seq_length / metrics.seconds;
  metrics.tflops_per_rank = model_flops(config_.model, batch_samples, seq_length) /
                            metrics.seconds / 1e12 / static_cast<double>(mesh_.dims().world);
  metrics.evaluations = evaluate(metrics.step);
  if (train_state_->on()) metrics.train_state = end_train_state(metrics, batch, sinks);
  if (options_.on_step) options_.on_step(metrics, model_->table, mesh_);
  for (const std::string& line : train_state_->lines()) {
    log_info("rank " + std::to_string(mesh_.rank()) + ": " + line);
  }
  return metrics;
}

// After every eval_interval updates, and after the last one.
std::vector<EvalMetrics> Trainer::evaluate(int64_t step) {
  const int64_t interval = config_.training.eval_interval;
  if (interval == 0 || (step % interval != 0 && step != config_.training.steps)) return {};
  const TimelineSpan span(options_.timeline, "evaluate");
  std::vector<EvalMetrics> found;
  for (const Evaluation& evaluation : evaluations_) {
    found.push_back(
        evaluation.run(*pipeline_, [this](int64_t batch) { begin(RankWork::kEvaluates, batch); }));
  }
  return found;
}

std::string Trainer::end_train_state(const StepMetrics& metrics,
                                     const std::vector<MicroBatch>& batch, const Sinks& sinks) {
  TrainStateStep step{metrics.step, metrics.loss, metrics.tokens, {}};
  for (const MicroBatch& micro_batch : batch) {
    step.micro_batch_labels.push_back(micro_batch.unmasked_tokens);
  }
  return train_state_->end_step(step, sinks, mesh_);
}

}  // namespace tessera
