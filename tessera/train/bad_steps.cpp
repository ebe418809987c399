// What a trainer does about a step that is not as others: a loss or norm that is not finite or
// leaps, ranks that are slow, copies that differ.

#include <ATen/ATen.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/replica_text.h"
#include "tessera/optim/grad_norm.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

constexpr int64_t kMostTimesBack = 3;  // to one state: what follows it leaps again and again

}  // namespace

// Where it began: "first on rank 2 (samples 4, 5)". Every rank is here, and gets the same text. The
// first rank whose own loss is not finite is named, with its samples; when all losses are finite,
// the first rank whose own gradients are not.
std::string Trainer::first_non_finite(const Sinks& sinks, const std::vector<MicroBatch>& batch) {
  const bool bad_loss = !std::isfinite(summed_loss(sinks));
  const bool bad_norm = !std::isfinite(counted_squares(model_->table));
  const auto none = static_cast<double>(mesh_.dims().world);
  const auto me = static_cast<double>(mesh_.rank());
  at::Tensor first = at::tensor({bad_loss ? me : none, bad_norm ? me : none}, at::kDouble);
  mesh_[Axis::kWorld].all_reduce({first}, ReduceOp::kMin).wait();
  const auto* values = first.const_data_ptr<double>();
  const double culprit = values[0] < none ? values[0] : values[1];

  at::Tensor samples = at::zeros({plan_.local_batch * plan_.micro_batches}, at::kLong);
  if (me == culprit) {
    int64_t* ids = samples.mutable_data_ptr<int64_t>();
    for (const MicroBatch& b : batch)
      ids = std::copy(b.sample_ids.begin(), b.sample_ids.end(), ids);
  }
  mesh_[Axis::kWorld].all_reduce({samples}).wait();
  std::string list;
  for (int64_t i = 0; i < samples.numel(); ++i) {
    const auto id = samples[i].item<int64_t>();
    if (id >= 0) list += (list.empty() ? "" : ", ") + std::to_string(id);
  }
  return detail::concat("first on rank ", static_cast<int>(culprit), " (samples ", list, ")");
}

void Trainer::skip_or_throw(const StepSums& sums, const Sinks& sinks,
                            const std::vector<MicroBatch>& batch) {
  const TrainingConfig& t = config_.training;
  const std::string where = first_non_finite(sinks, batch);
  const int64_t step = state_.next.step + 1;
  if (!t.use_skip_step_on_nan) {
    throw NonFiniteError(detail::concat("step ", step, ": ",
                                        std::isfinite(sums.loss) ? "gradient norm" : "loss",
                                        " is not finite, ", where, "; nothing was updated"));
  }
  count_skipped(
      detail::concat("loss ", sums.loss, ", gradient norm ", std::sqrt(sums.squares), ", ", where));
}

void Trainer::skip_spike(double norm) {
  const bool wants_back = config_.elastic.spike.action == "rollback";
  count_skipped(spikes_.text(norm) +
                (wants_back ? "; no checkpoint is whole yet to go back to" : ""));
}

void Trainer::count_skipped(const std::string& what) {
  const TrainingConfig& t = config_.training;
  const UpdateSpan& span = state_.next;
  ++state_.skipped_in_row;
  ++state_.skipped;
  std::vector<SampleRange>& ranges = state_.skipped_ranges;
  if (!ranges.empty() && ranges.back().place + ranges.back().count == span.place) {
    ranges.back().count += span.batch;
  } else {
    ranges.push_back({span.place, span.batch});
  }
  const std::string text =
      detail::concat("step ", span.step + 1, " is skipped: ", what, "; ", state_.skipped_in_row,
                     " in a row, ", state_.skipped, " in all");
  if (t.max_consecutive_skipped_steps > 0 &&
      state_.skipped_in_row >= t.max_consecutive_skipped_steps) {
    throw NonFiniteError(detail::concat(text, "; training.max_consecutive_skipped_steps = ",
                                        t.max_consecutive_skipped_steps, " ends the run"));
  }
  if (mesh_.rank() == 0) log_warning(text);
}

void Trainer::go_back(double norm) {
  const UpdateSpan bad = state_.next;
  std::vector<SampleRange> left_out = state_.left_out;
  left_out.push_back({bad.place, bad.batch});
  const std::string what = detail::concat("step ", bad.step + 1, ": ", spikes_.text(norm));
  state_ = checkpoints_->go_back();
  times_there_ = state_.next.step == good_step_ ? times_there_ + 1 : 1;
  good_step_ = state_.next.step;
  if (times_there_ > kMostTimesBack) {
    throw NonFiniteError(detail::concat(what, "; the run went back to step ", good_step_, " ",
                                        kMostTimesBack, " times already"));
  }
  if (mesh_.rank() == 0) {
    log_warning(detail::concat(what, "; the run goes back to step ", good_step_,
                               " and leaves out the ", bad.batch, " samples from place ", bad.place,
                               " on"));
  }
  state_.left_out = std::move(left_out);
  updates_ = updates_->without(state_.left_out);
  state_.next = updates_->from(state_.next.step, state_.next.samples, state_.next.place);
  spikes_ = SpikeWatch(config_.elastic.spike, state_.norms);
  begin_loading();
  if (options_.on_go_back) options_.on_go_back(samples(), steps_done());
}

void Trainer::watch_stragglers(const StepSums& sums) {
  if (!stragglers_) return;
  const auto world = static_cast<size_t>(sums.times.size(1));
  const double* seconds = sums.times.const_data_ptr<double>();
  const OwnTimes times{{seconds, seconds + world}, {seconds + world, seconds + 2 * world}};
  for (const std::string& line : stragglers_->add(times)) log_warning(line);
}

// Where copies of a weight differ a process computes wrongly, or its memory does: none of them can
// go on.
void Trainer::check_copies(int64_t step) {
  const int64_t interval = config_.monitor.replica_check_interval;
  if (interval == 0 || step % interval != 0) return;
  const std::string differences = replica_text(check_replicas(model_->table, mesh_));
  if (!differences.empty()) throw CommError(detail::concat("after step ", step, " ", differences));
}

}  // namespace tessera
