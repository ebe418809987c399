#include "tessera/train/parity/inject_faults.h"

#include <ATen/ATen.h>

#include <limits>

#include "tessera/base/error.h"
#include "tessera/nn/attention/attention.h"
#include "tessera/nn/attention/mla.h"
#include "tessera/nn/experts/moe.h"
#include "tessera/parallel/context/context_attention.h"
#include "tessera/parallel/experts/expert_parallel_dispatchers.h"
#include "tessera/parallel/tensor/tensor_parallel_layers.h"
#include "tessera/schedule/make_schedule.h"
#include "tessera/train/parity/altered_attention.h"
#include "tessera/train/parity/altered_group.h"

namespace tessera {
namespace {

using Kind = Faults::Kind;

[[noreturn]] void refuse(const Faults& faults, const std::string& reason) {
  throw ConfigError("--plant " + faults.text + ": " + reason);
}

struct WeightsTwice : TokenDispatcher {
  explicit WeightsTwice(std::unique_ptr<TokenDispatcher> inner) : inner(std::move(inner)) {}
  std::unique_ptr<DispatchCall> dispatch(const at::Tensor& x_TH, const at::Tensor& expert_ids,
                                         const at::Tensor& weights, int64_t experts) override {
    return inner->dispatch(x_TH, expert_ids, weights * weights, experts);
  }
  std::unique_ptr<TokenDispatcher> inner;
};

std::unique_ptr<CoreAttention>* core_of(DecoderLayer& layer) {
  if (auto* plain = dynamic_cast<Attention*>(layer.attention.get())) return &plain->core;
  if (auto* latent = dynamic_cast<LatentAttention*>(layer.attention.get())) return &latent->core;
  return nullptr;
}

// In the layer that the fault names. False: it has no such place.
bool inject_in_layer(Kind kind, DecoderLayer& layer) {
  if (kind == Kind::kSliceGradient) {
    auto* plain = dynamic_cast<Attention*>(layer.attention.get());
    auto* cut = plain ? dynamic_cast<ColumnProjections*>(plain->qkv_proj.get()) : nullptr;
    if (cut != nullptr) cut->group = without_scattered_sums(cut->group);
    return cut != nullptr;
  }
  if (kind == Kind::kForwardSplits || kind == Kind::kDoubleWeights) {
    auto* moe = dynamic_cast<MixtureOfExperts*>(layer.mlp.get());
    if (moe == nullptr) return false;
    if (kind == Kind::kDoubleWeights) {
      moe->dispatcher = std::make_unique<WeightsTwice>(std::move(moe->dispatcher));
      return true;
    }
    auto* exchange = dynamic_cast<AllToAllDispatcher*>(moe->dispatcher.get());
    if (exchange != nullptr) exchange->group = with_forward_splits(exchange->group);
    return exchange != nullptr;
  }
  std::unique_ptr<CoreAttention>* core = core_of(layer);
  auto* context = core ? dynamic_cast<ContextAttention*>(core->get()) : nullptr;
  if (context == nullptr || context->outer.size() == 1) return false;
  if (kind == Kind::kUnmergedLse) {
    if (context->outer.rank() == 1) *core = without_merged_lse(*context);
    return true;
  }
  if (context->exchange != KeyExchange::kRing) return false;
  if (context->outer.rank() == 0) lose_key_gradient(*context);
  return true;
}

bool inject_in_units(const Faults& faults, ParallelModel& model) {
  for (const auto& unit : model.units) {
    if (unit->name() != faults.unit) continue;
    if (faults.kind == Kind::kScaleGradient) {
      unit->set_gradient_factor(2.0);
    } else {
      unit->skip_reduction();
    }
    return true;
  }
  return false;
}

bool inject_in_table(const Faults& faults, ParamTable& table, int64_t rank) {
  const std::optional<Axis> axis = axis_from_name(faults.unit);
  for (const auto& param : table.params()) {
    if (faults.kind == Kind::kSkipPartial) {
      if (!faults.parameter.empty() && param->name != faults.parameter) continue;
      if (axis && std::erase(param->partial, *axis) > 0) return true;
    } else if (rank == faults.rank && !param->primary && param->value.numel() > 0) {
      param->value.view(-1)[0] += 1e-3;
      return true;
    }
  }
  return false;
}

bool inject_in_loss_head(ParallelModel& model) {
  for (const auto& decoder : model.decoders) {
    auto* head = dynamic_cast<VocabularyLossHead*>(decoder->head.get());
    if (head == nullptr || !head->loss_parallel) continue;
    head->group = without_sums(head->group);
    return true;
  }
  return false;
}

// Whether this rank has the place; a rank of another stage has not.
bool inject_here(const Faults& faults, ParallelModel& model, const DeviceMesh& mesh) {
  switch (faults.kind) {
    case Kind::kScaleGradient:
    case Kind::kSkipReduction: return inject_in_units(faults, model);
    case Kind::kSkipPartial:
    case Kind::kPerturbReplica: return inject_in_table(faults, model.table, mesh.rank());
    case Kind::kLocalVocabulary: return inject_in_loss_head(model);
    case Kind::kSliceGradient:
    case Kind::kUnmergedLse:
    case Kind::kDropKeyGradient:
    case Kind::kForwardSplits:
    case Kind::kDoubleWeights:
      for (const auto& decoder : model.decoders) {
        for (DecoderLayer* layer : decoder->all_layers()) {
          if ("layer " + std::to_string(layer->index) == faults.unit) {
            return inject_in_layer(faults.kind, *layer);
          }
        }
      }
      return false;
    default: return true;  // takes hold elsewhere
  }
}

}  // namespace

void inject_before_training(const Faults& faults, ParallelModel& model, const DeviceMesh& mesh) {
  if (faults.none()) return;
  const at::Tensor places =
      at::full({1}, static_cast<int64_t>(inject_here(faults, model, mesh)), at::kLong);
  mesh[Axis::kWorld].all_reduce({places}).wait();
  if (places.item<int64_t>() == 0) refuse(faults, "this layout has no such place");
}

ProcessGroup inject_in_pipeline(const Faults& faults, const ProcessGroup& stages,
                                const ScheduleOptions& schedule) {
  if (faults.kind != Kind::kSwapMicroBatches) return stages;
  if (schedule.stages < 2 || schedule.micro_batches < 2) {
    refuse(faults, "it needs a pipeline with two micro-batches");
  }
  constexpr int kSecondStage = 1;
  if (stages.rank() != kSecondStage) return stages;
  std::vector<int64_t> tags;
  const PipelineSchedule made = make_schedule(schedule);
  for (const Action& action : made.ranks.at(kSecondStage)) {
    if (action.kind == ActionKind::kRecvForward && action.chunk == 0) tags.push_back(action.tag);
  }
  return with_other_tags(stages, [a = tags.at(0), b = tags.at(1)](int64_t tag) {
    return tag == a ? b : tag == b ? a : tag;
  });
}

void inject_in_batch(const Faults& faults, std::vector<LayerContext>& contexts,
                     const DeviceMesh& mesh) {
  if (faults.kind == Kind::kShiftLabels) {
    for (LayerContext& context : contexts) context.labels = context.labels.roll(1);
  }
  if (faults.kind == Kind::kDropMicroBatch) {
    if (faults.micro_batch >= static_cast<int64_t>(contexts.size())) {
      refuse(faults, "a step has " + std::to_string(contexts.size()) + " micro-batches");
    }
    LayerContext& dropped = contexts[static_cast<size_t>(faults.micro_batch)];
    dropped.loss_mask.zero_();
    if (dropped.next_loss_mask.defined()) dropped.next_loss_mask.zero_();
  }
  if (faults.kind == Kind::kContiguousPositions) {
    if (mesh.size(Axis::kCp) == 1) refuse(faults, "it needs context parallelism");
    for (LayerContext& context : contexts) {
      const int64_t length = context.positions.size(0) / context.rows;
      const int64_t first = mesh.coordinate(Axis::kCp) * length;
      context.positions = at::arange(first, first + length, at::kLong).repeat({context.rows});
    }
  }
}

void inject_in_loss(const Faults& faults, Sinks& sinks, int64_t step, int64_t rank) {
  if (faults.kind != Kind::kNonFiniteLoss || step != faults.step || rank != faults.rank) return;
  for (auto& [micro_batch, loss] : sinks.loss) loss.fill_(std::numeric_limits<double>::infinity());
}

}  // namespace tessera
