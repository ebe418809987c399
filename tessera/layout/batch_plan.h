#pragma once

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/data/update_sequence.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// Far above any real step; plans and runs hold a list of a step's micro-batches.
constexpr int64_t kMostMicroBatches = int64_t{1} << 20;

/// How an update's samples are cut. `micro_batches` = floor(global / (batch ranks * local)); of a
/// run that keeps its batch on other numbers of ranks, ceil of it, and the last places are padding.
struct BatchPlan {
  int64_t batch_ranks = 1;      // dp_replicate * dp_shard
  int64_t local_batch = 1;      // sequences of one micro-batch on one batch rank
  int64_t micro_batches = 1;    // accumulation steps; 0: the batch ranks need more than asked
  int64_t asked_batch = 1;      // training.global_batch_size
  int64_t effective_batch = 1;  // samples that are trained on

  bool operator==(const BatchPlan&) const = default;
};

/// Whether the batch stays exactly global_batch_size on every layout: elastic.layouts is given.
bool keeps_batch(const Config& config);

/// Of the batch that a run has in the end, where it grows.
BatchPlan make_batch_plan(const Config& config, const ParallelDims& dims);

/// The same with updates of `batch` samples, all of which are trained on.
BatchPlan with_batch(const BatchPlan& plan, int64_t batch);

/// training.rampup_batch_size, [first, increment, samples], up to the effective batch; without it
/// the batch is that from the beginning. Of a configuration without errors.
BatchGrowth batch_growth(const TrainingConfig& training, const BatchPlan& plan);

}  // namespace tessera
