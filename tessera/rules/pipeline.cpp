// Rules of pipeline_parallel, and the reserved fields.

#include <algorithm>
#include <array>
#include <cstdio>

#include "tessera/layout/batch_plan.h"
#include "tessera/layout/layer_ranges.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/rules/checker.h"
#include "tessera/schedule/schedule_formulas.h"

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

void check_bubble(Checker& check, int64_t micro_batches) {
  const ParallelismConfig& p = check.config.parallelism;
  if (micro_batches < 1 || micro_batches >= p.pipeline_parallel) return;
  const double idle = idle_over_ideal(pipeline_options(p, micro_batches));
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
  const std::string used(schedule_name(pipeline_options(p, micro_batches)));
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
          ? make_batch_plan(check.config, check.dims).micro_batches
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

}  // namespace tessera
