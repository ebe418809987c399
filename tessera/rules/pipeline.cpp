// Rules of pipeline_parallel, and the reserved fields.

#include <algorithm>
#include <array>
#include <cstdio>

#include "tessera/layout/batch_plan.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

constexpr std::string_view kLayers = "parallelism.pipeline_parallel_layers_per_stage";

void check_layers(Checker& check) {
  const ParallelismConfig& p = check.config.parallelism;
  const int64_t layers = check.config.model.num_hidden_layers;
  const int64_t stages = p.pipeline_parallel;
  const int64_t chunks = p.pipeline_parallel_interleave_num;
  if (!check.model_ok || !check.good({"model.num_hidden_layers", "parallelism.pipeline_parallel",
                                      "parallelism.pipeline_parallel_interleave_num"})) {
    return;
  }
  if (layers < stages * chunks) {
    check.error("parallelism.pipeline_parallel",
                "times pipeline_parallel_interleave_num (" + std::to_string(chunks) +
                    ") must not exceed num_hidden_layers (" + std::to_string(layers) + ")",
                nearest_of({std::max<int64_t>(1, layers / chunks)}, stages));
    return;
  }
  if (!p.pipeline_parallel_layers_per_stage) {
    std::string list;
    for (const std::string& entry : balanced_layers(layers, stages, chunks)) {
      list += (list.empty() ? "" : ", ") + ('"' + entry + '"');
    }
    const bool even = layers % (stages * chunks) == 0;
    check.error(kLayers, "is needed with pipeline_parallel > 1",
                (even ? "auto, or [" : "[") + list + "]");
    return;
  }
  const LayersPerStage& asked = *p.pipeline_parallel_layers_per_stage;
  std::vector<LayerProblem> problems;
  place_layers(asked, layers, stages, chunks, problems);
  for (const LayerProblem& problem : problems) {
    if (problem.stage < 0) {
      check.error(kLayers, problem.rule);
    } else {
      check.error_at(kLayers, problem.stage, '"' + asked.stages[problem.stage] + '"', problem.rule);
    }
  }
}

std::string ratio(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

// Idle time over work of a pipeline of equal stages with fewer micro-batches than stages: the
// first round is short, and each further chunk waits for the pipeline again.
void check_bubble(Checker& check, int64_t micro_batches) {
  const ParallelismConfig& p = check.config.parallelism;
  const double stages = static_cast<double>(p.pipeline_parallel);
  const double chunks = static_cast<double>(p.pipeline_parallel_interleave_num);
  const double m = static_cast<double>(micro_batches);
  if (micro_batches < 1 || micro_batches >= p.pipeline_parallel) return;
  const double idle = (stages - 1 + (chunks - 1) * (stages - m)) / (chunks * m);
  check.warning("parallelism.pipeline_parallel",
                "more stages than micro-batches (" + std::to_string(micro_batches) +
                    "): idle time / work = " + ratio(idle) +
                    "; raise global_batch_size or lower local_batch_size");
}

void check_reserved(Checker& check, int64_t micro_batches) {
  const ParallelismConfig& p = check.config.parallelism;
  const TrainingConfig& training = check.config.training;
  if (check.given("parallelism.pipeline_parallel_microbatch_size") && check.dims_ok &&
      check.good({"training.local_batch_size", "training.global_batch_size"}) &&
      p.pipeline_parallel_microbatch_size != micro_batches) {
    check.warning("parallelism.pipeline_parallel_microbatch_size",
                  "no effect; micro-batches = " + std::to_string(micro_batches) +
                      ", derived from " + std::to_string(training.global_batch_size) + "/(" +
                      std::to_string(check.dims.batch()) + "·" +
                      std::to_string(training.local_batch_size) + ")");
  }
  const bool interleaved =
      p.pipeline_parallel_interleave_num > 1 || p.pipeline_parallel_overlap_b_f;
  const std::string used = interleaved ? "interleaved_1f1b" : "1f1b";
  if (check.given("parallelism.pipeline_parallel_schedule") &&
      p.pipeline_parallel_schedule != used) {
    check.warning("parallelism.pipeline_parallel_schedule",
                  "no effect; the schedule is " + used +
                      ", derived from pipeline_parallel_interleave_num = " +
                      std::to_string(p.pipeline_parallel_interleave_num));
  }
  if (p.pipeline_parallel_enable_dxdw_split) {
    check.warning("parallelism.pipeline_parallel_enable_dxdw_split",
                  "no effect; backward is not split");
  }
}

}  // namespace

void check_pipeline_parallel(Checker& check) {
  const ParallelismConfig& p = check.config.parallelism;
  const int64_t micro_batches =
      check.dims_ok && check.good({"training.local_batch_size", "training.global_batch_size"})
          ? make_batch_plan(check.config.training, check.dims).micro_batches
          : 0;
  check_reserved(check, micro_batches);
  if (!check.good({"parallelism.pipeline_parallel"})) return;
  if (p.pipeline_parallel == 1) {
    if (p.pipeline_parallel_layers_per_stage) check.no_effect(kLayers);
    if (p.pipeline_parallel_interleave_num > 1) {
      check.no_effect("parallelism.pipeline_parallel_interleave_num");
    }
    if (p.pipeline_parallel_overlap_p2p) {
      check.no_effect("parallelism.pipeline_parallel_overlap_p2p");
    }
    if (p.pipeline_parallel_overlap_b_f) {
      check.no_effect("parallelism.pipeline_parallel_overlap_b_f");
    }
    return;
  }
  check_layers(check);
  check_bubble(check, micro_batches);
}

void check_batch(Checker& check) {
  const TrainingConfig& t = check.config.training;
  if (!check.dims_ok || !check.good({"training.local_batch_size", "training.global_batch_size"})) {
    return;
  }
  const BatchPlan plan = make_batch_plan(t, check.dims);
  const int64_t smallest = plan.batch_ranks * plan.local_batch;
  const std::string product = "data parallel (" + std::to_string(plan.batch_ranks) +
                              ") x local_batch_size (" + std::to_string(plan.local_batch) + ")";
  if (plan.micro_batches == 0) {
    const int64_t local = t.global_batch_size / plan.batch_ranks;
    check.error("training.global_batch_size",
                "must be at least " + product + " = " + std::to_string(smallest),
                std::to_string(smallest) +
                    (local > 0 ? "; or local_batch_size " + std::to_string(local) : ""));
  } else if (plan.micro_batches > kMostMicroBatches) {
    check.error("training.global_batch_size",
                "makes " + std::to_string(plan.micro_batches) + " micro-batches of " + product +
                    " = " + std::to_string(smallest) + "; at most " +
                    std::to_string(kMostMicroBatches) + " are run in a step",
                std::to_string(kMostMicroBatches * smallest));
  } else if (plan.effective_batch != plan.asked_batch) {
    check.warning("training.global_batch_size",
                  "is no multiple of " + product + ": the effective batch is " +
                      std::to_string(plan.effective_batch) + " = " + std::to_string(smallest) +
                      " x " + std::to_string(plan.micro_batches) +
                      " micro-batches, and every count uses it");
  }
}

}  // namespace tessera
