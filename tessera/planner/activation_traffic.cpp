#include "tessera/planner/activation_traffic.h"

#include <algorithm>

#include "tessera/planner/placement_rules.h"

namespace tessera {
namespace {

// Tokens whose logits exist at once in the loss over a cut vocabulary; the number of messages
// follows from it.
int64_t loss_chunk_tokens(int64_t tokens, int64_t vocabulary, int64_t chunks) {
  constexpr int64_t kChunkElements = int64_t{1} << 23;
  constexpr int64_t kLeastTokens = 256;
  if (chunks > 0) return std::max<int64_t>(1, (tokens + chunks - 1) / chunks);
  return std::max(kLeastTokens, kChunkElements / std::max<int64_t>(1, vocabulary));
}

// Counts the messages of one micro-batch over tp, then writes those of a step.
class TensorTraffic {
 public:
  TensorTraffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                int64_t rank)
      : config_(config), dims_(dims), rank_(rank) {
    tokens_ = batch.local_batch * config.model.seq_length / dims.cp;
    micro_batches_ = batch.micro_batches;
  }

  void add_to(const StageUnits& stage, TrafficPlan& plan) {
    for (const ModelUnit& unit : stage.units) {
      switch (unit.kind) {
        case ModelUnit::Kind::kEmbedding:
          if (!unit.is_copy) rows(1, 1);
          break;
        // Forward: two gathers and two scatters; backward: their transposes, and the gathered
        // inputs once more, for the gradients of the weights.
        case ModelUnit::Kind::kLayer: rows(6, 4); break;
        case ModelUnit::Kind::kHead:
          rows(1, 1);
          loss();
          break;
      }
    }
    add(plan, "all_gather", gathers_);
    add(plan, "reduce_scatter", scatters_);
    add(plan, "all_reduce", reductions_);
    whole_parameters(stage, plan);
  }

 private:
  // Gathers and scatters of activations [tokens, hidden] along the sequence.
  void rows(int64_t gathers, int64_t scatters) {
    const int64_t bytes = tokens_ / dims_.tp * (dims_.tp - 1) * config_.model.hidden_size *
                          size_of(config_.model.compute_dtype);
    gathers_.calls += gathers;
    gathers_.bytes += gathers * bytes;
    scatters_.calls += scatters;
    scatters_.bytes += scatters * bytes;
  }

  void loss() {
    const bool cut = config_.parallelism.enable_loss_parallel;
    const int64_t vocabulary = config_.model.vocab_size;
    const int64_t own = part_of(vocabulary, dims_.tp, dims_.index_on(Axis::kTp, rank_)).size();
    const int64_t step =
        loss_chunk_tokens(tokens_, cut ? own : vocabulary, config_.model.chunk_loss_num);
    for (int64_t begin = 0; begin < tokens_; begin += step) {
      const int64_t count = std::min(step, tokens_ - begin);
      if (cut) {  // the highest logit; then the sum of exponentials with the target's logit
        for (const int64_t values : {count, 2 * count}) {
          const int64_t bytes = values * size_of(master_dtype(config_.model));
          reductions_.calls += 1;
          reductions_.bytes += 2 * (dims_.tp - 1) * bytes / dims_.tp;
        }
      } else {  // the logits
        gathers_.calls += 1;
        gathers_.bytes += (dims_.tp - 1) * own * count * size_of(config_.model.compute_dtype);
      }
    }
  }

  void add(TrafficPlan& plan, const std::string& operation,
           const TrafficPlan::Count& of_micro_batch) const {
    if (of_micro_batch.calls == 0) return;
    plan.operations[operation].calls += micro_batches_ * of_micro_batch.calls;
    plan.operations[operation].bytes += micro_batches_ * of_micro_batch.bytes;
  }

  // Once a step: gradients of what every rank computes with on its own tokens or heads.
  void whole_parameters(const StageUnits& stage, TrafficPlan& plan) const {
    std::map<int64_t, int64_t> bytes;  // by the number of ranks that hold the same
    for (const ModelUnit& unit : stage.units) {
      for (const TensorGroup& group : unit.tensors) {
        const auto cuts = cuts_of(group.role, config_.model, dims_);
        const int64_t copies = cuts.front().axis == "tp" ? cuts.front().copies : dims_.tp;
        if (copies == 1) continue;
        bytes[copies] += group.count * local_elements(group.shape, cuts, dims_, rank_) *
                         size_of(master_dtype(config_.model));
      }
    }
    for (const auto& [copies, sum] : bytes) {
      plan.operations["all_reduce"].calls += 1;
      plan.operations["all_reduce"].bytes += 2 * (copies - 1) * sum / copies;
    }
  }

  const Config& config_;
  const ParallelDims& dims_;
  int64_t rank_;
  int64_t tokens_ = 0;  // of a micro-batch on a tp group
  int64_t micro_batches_ = 1;
  TrafficPlan::Count gathers_, scatters_, reductions_;
};

}  // namespace

void add_activation_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                            const StagePlan& chunks, const StageUnits& stage, int64_t rank,
                            std::map<std::string, TrafficPlan>& traffic) {
  if (dims.tp > 1 && dims.ep == 1 && !config.model.is_moe() && !config.model.is_mla()) {
    TensorTraffic(config, dims, batch, rank).add_to(stage, traffic["tp"]);
  }
  if (dims.pp == 1) return;
  const int64_t last = dims.pp * static_cast<int64_t>(chunks.chunks.size()) - 1;
  const int64_t bytes = batch.local_batch * config.model.seq_length / dims.cp / dims.tp *
                        config.model.hidden_size * size_of(config.model.compute_dtype);
  TrafficPlan::Count sends;
  for (const ChunkPlan& chunk : chunks.chunks) {
    // Its output, and the gradient of its input.
    const int64_t messages =
        (chunk.virtual_stage < last ? 1 : 0) + (chunk.virtual_stage > 0 ? 1 : 0);
    sends.calls += batch.micro_batches * messages;
    sends.bytes += batch.micro_batches * messages * bytes;
  }
  traffic["pp"].operations["send"] = sends;
}

}  // namespace tessera
