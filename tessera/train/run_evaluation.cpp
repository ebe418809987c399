#include <mutex>

#include "tessera/base/error.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/pipeline_options.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/rules/derive.h"
#include "tessera/train/evaluation.h"
#include "tessera/train/load_weights.h"
#include "tessera/train/run.h"

namespace tessera {

std::vector<EvalMetrics> run_evaluation(const Config& config, const WorldOptions& options) {
  if (config.checkpoint.load_path.empty()) {
    throw ConfigError("checkpoint.load_path is needed: whose loss is asked for");
  }
  const std::vector<EvalSet> sets = open_eval_sets(config);
  std::vector<EvalMetrics> found;
  std::mutex mutex;  // ranks may be threads
  const auto rank_main = [&](const ProcessGroup& world) {
    const DeviceMesh mesh(derive_dims(config, world.size()), world);
    const auto model = parallelize(config, mesh);
    load_weights(*model, config, mesh);
    const BatchPlan plan = make_batch_plan(config, mesh.dims());
    PipelineRuntime pipeline(pipeline_options(config.parallelism, plan.micro_batches),
                             model->chunks, mesh[Axis::kPp], config.model.hidden_size,
                             scalar_type(config.model.compute_dtype));
    std::vector<EvalMetrics> own;
    for (const EvalSet& set : sets) own.push_back(Evaluation(config, set, mesh).run(pipeline));
    const std::scoped_lock lock(mutex);
    if (found.empty()) found = own;
  };
  run_world(config, options, options.worker ? RankPage::of_launcher() : nullptr, rank_main);
  return found;
}

}  // namespace tessera
