#pragma once

// The loss of a model on a set that it is not trained on. Nothing of the training moves: no update,
// no random number, no place in the data; nothing is dropped, no gradient is made.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/data/loader.h"
#include "tessera/data/sample_source.h"
#include "tessera/parallel/pipeline_runtime.h"
#include "tessera/train/metrics.h"

namespace tessera {

/// A set of eval_dataset, opened once per process.
struct EvalSet {
  EvalDatasetConfig config;
  std::shared_ptr<const SampleSource> source;
  /// Bytes of text of each token id; empty where no tokenizer is known.
  std::shared_ptr<const std::vector<int32_t>> bytes_of_token;
};

/// All sets of the file. The tokenizer of a set is its dataloader's, else the one that lies at
/// checkpoint.load_path. Throws ConfigError.
std::vector<EvalSet> open_eval_sets(const Config& config);

class Evaluation {
 public:
  /// One rank of it.
  Evaluation(const Config& config, const EvalSet& set, const DeviceMesh& mesh);

  /// Collective over the mesh; the same on every rank. The first training.eval_iters global
  /// batches of the set, or all of it.
  /// `on_batch` is called with the number of each batch before it runs.
  EvalMetrics run(PipelineRuntime& pipeline,
                  const std::function<void(int64_t batch)>& on_batch = {}) const;

 private:
  struct Sums {
    double loss = 0;
    int64_t labels = 0;
    int64_t bytes = 0;
  };
  /// Samples [place, place + micro_batches x unit), places from `end` on are padding.
  void add(PipelineRuntime& pipeline, int64_t place, int64_t micro_batches, int64_t end,
           Sums& sums) const;

  Config config_;
  EvalSet set_;
  const DeviceMesh& mesh_;
  LoaderOptions options_;
  Loader loader_;
};

}  // namespace tessera
