#include "tessera/train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "tessera/base/error.h"
#include "tessera/data/tokenizer.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/loader_options.h"
#include "tessera/layout/training_data.h"
#include "tessera/train/make_contexts.h"
#include "tessera/train/step_sums.h"

namespace tessera {
namespace {

LoaderOptions options_of(const Config& config, const DeviceMesh& mesh) {
  const BatchPlan plan = make_batch_plan(config, mesh.dims());
  LoaderOptions options = loader_options(config, mesh.dims(), plan, mesh.rank());
  options.may_be_short = true;
  options.next_tokens = false;
  return options;
}

std::string tokenizer_of(const Config& config, const EvalDatasetConfig& set) {
  if (set.dataloader.tokenizer) return *set.dataloader.tokenizer;
  const std::filesystem::path folder = config.checkpoint.load_path;
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(folder / "tokenizer.json", error)) return "";
  return folder.string();
}

std::shared_ptr<const std::vector<int32_t>> bytes_of_tokens(const std::string& name) {
  const auto tokenizer = make_tokenizer(name);
  std::vector<int32_t> bytes(static_cast<size_t>(tokenizer->vocab_size()));
  for (size_t id = 0; id < bytes.size(); ++id) {
    bytes[id] = static_cast<int32_t>(tokenizer->text_bytes(static_cast<int32_t>(id)));
  }
  return std::make_shared<const std::vector<int32_t>>(std::move(bytes));
}

int64_t counted_bytes(const MicroBatch& batch, const std::vector<int32_t>& bytes_of_token) {
  int64_t bytes = 0;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    const auto id = static_cast<size_t>(batch.labels[i]);
    if (batch.loss_mask[i] != 0 && id < bytes_of_token.size()) bytes += bytes_of_token[id];
  }
  return bytes;
}

}  // namespace

std::vector<EvalSet> open_eval_sets(const Config& config) {
  std::vector<EvalSet> sets;
  for (const EvalDatasetConfig& set : config.eval_dataset) {
    const auto options = evaluation_data(config, set);
    if (!options) throw ConfigError("eval_dataset " + set.name + ": names no data");
    const std::string tokenizer = tokenizer_of(config, set);
    sets.push_back(
        {set, open_dataset(*options), tokenizer.empty() ? nullptr : bytes_of_tokens(tokenizer)});
  }
  return sets;
}

Evaluation::Evaluation(const Config& config, const EvalSet& set, const DeviceMesh& mesh)
    : config_(evaluated_as_training(config, set.config)),
      set_(set),
      mesh_(mesh),
      options_(options_of(config_, mesh)),
      loader_(set.source, options_) {}

EvalMetrics Evaluation::run(PipelineRuntime& pipeline,
                            const std::function<void(int64_t batch)>& on_batch) const {
  const auto start = std::chrono::steady_clock::now();
  const int64_t unit = options_.batch_degree * options_.local_batch_size;
  int64_t end = set_.source->size();
  const std::vector<int64_t>& sizes = set_.config.dataloader.sizes;
  if (sizes.size() > 1 && sizes[1] > 0) end = std::min(end, sizes[1]);
  if (config_.training.eval_iters > 0) {
    end = std::min(end, config_.training.eval_iters * options_.effective_batch());
  }
  Sums own;
  for (int64_t place = 0, number = 0; place < end; ++number) {
    if (on_batch) on_batch(number);
    const int64_t left = (end - place + unit - 1) / unit;
    const int64_t micro_batches = std::min(left, options_.micro_batches);
    add(pipeline, place, micro_batches, end, own);
    place += micro_batches * unit;
  }
  // The ranks of a tp group compute the same loss, and all stages have the same labels.
  const bool counts = mesh_.coordinate(Axis::kTp) == 0;
  const bool counts_labels = counts && mesh_.coordinate(Axis::kPp) == 0;
  const at::Tensor sums =
      at::tensor({counts ? own.loss : 0.0, counts_labels ? static_cast<double>(own.labels) : 0.0,
                  counts_labels ? static_cast<double>(own.bytes) : 0.0},
                 at::kDouble);
  mesh_[Axis::kWorld].all_reduce({sums}).wait();
  const auto* values = sums.const_data_ptr<double>();
  EvalMetrics metrics;
  metrics.name = set_.config.name;
  metrics.tokens = static_cast<int64_t>(values[1]);
  metrics.samples = end;
  metrics.loss = metrics.tokens > 0 ? values[0] / values[1] : 0.0;
  metrics.perplexity = std::exp(metrics.loss);
  if (values[2] > 0) metrics.bits_per_byte = values[0] / std::numbers::ln2 / values[2];
  metrics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return metrics;
}

void Evaluation::add(PipelineRuntime& pipeline, int64_t place, int64_t micro_batches, int64_t end,
                     Sums& sums) const {
  const int64_t places = micro_batches * options_.batch_degree * options_.local_batch_size;
  const std::vector<MicroBatch> batch = loader_.load({0, 0, place, std::min(places, end - place)});
  Sinks sinks;
  StepContext step;
  step.trains = false;
  step.sinks = &sinks;
  step.device = mesh_.device();
  std::vector<LayerContext> contexts =
      make_contexts(batch, step, mesh_.coordinate(Axis::kTp), mesh_.size(Axis::kTp));
  pipeline.look(contexts);
  sums.loss += summed_loss(sinks);
  sums.labels += count(batch).labels;
  if (!set_.bytes_of_token) return;
  for (const MicroBatch& micro_batch : batch) {
    sums.bytes += counted_bytes(micro_batch, *set_.bytes_of_token);
  }
}

}  // namespace tessera
