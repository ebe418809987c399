#include "tessera/train/faults.h"

#include <ATen/ATen.h>

#include <limits>
#include <sstream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/nn/moe.h"
#include "tessera/train/plant.h"

namespace tessera {

Faults parse_fault(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ':');) words.push_back(word);
  words.resize(std::max<size_t>(words.size(), 1));
  Faults faults;
  const auto number = [&](size_t i, int64_t otherwise) {
    return words.size() > i ? std::stoll(words[i]) : otherwise;
  };
  if (words[0] == "scale_gradient" && words.size() == 2) {
    faults.kind = Faults::Kind::kScaleGradient;
    faults.unit = words[1];
  } else if (words[0] == "skip_reduction" && words.size() == 2) {
    faults.kind = Faults::Kind::kSkipReduction;
    faults.unit = words[1];
  } else if (words[0] == "skip_partial" && words.size() == 2) {
    faults.kind = Faults::Kind::kSkipPartial;
    faults.unit = words[1];
  } else if (words[0] == "double_weights" && words.size() == 2) {
    faults.kind = Faults::Kind::kDoubleWeights;
    faults.unit = words[1];
  } else if (words[0] == "shift_labels" && words.size() == 1) {
    faults.kind = Faults::Kind::kShiftLabels;
  } else if (words[0] == "perturb_replica" && words.size() <= 2) {
    faults.kind = Faults::Kind::kPerturbReplica;
    faults.rank = number(1, 1);
  } else if (words[0] == "non_finite_loss" && words.size() <= 3) {
    faults.kind = Faults::Kind::kNonFiniteLoss;
    faults.rank = number(1, 0);
    faults.step = number(2, 1);
  } else {
    throw ConfigError("--plant " + text +
                      ": legal are scale_gradient:UNIT, skip_reduction:UNIT, skip_partial:AXIS, "
                      "double_weights:UNIT, shift_labels, perturb_replica[:RANK], "
                      "non_finite_loss[:RANK[:STEP]]; a UNIT is "
                      "embedding, \"layer N\", \"layer N experts\" or head");
  }
  return faults;
}

namespace {

struct WeightsTwice : TokenDispatcher {
  explicit WeightsTwice(std::unique_ptr<TokenDispatcher> inner) : inner(std::move(inner)) {}
  std::unique_ptr<DispatchCall> dispatch(const at::Tensor& x_TH, const at::Tensor& expert_ids,
                                         const at::Tensor& weights, int64_t experts) override {
    return inner->dispatch(x_TH, expert_ids, weights * weights, experts);
  }
  std::unique_ptr<TokenDispatcher> inner;
};

void apply_weights_twice(const std::string& unit, ParallelModel& model) {
  for (const auto& decoder : model.decoders) {
    for (DecoderLayer* layer : decoder->all_layers()) {
      auto* moe = dynamic_cast<MixtureOfExperts*>(layer->mlp.get());
      if (moe == nullptr || "layer " + std::to_string(layer->index) != unit) continue;
      moe->dispatcher = std::make_unique<WeightsTwice>(std::move(moe->dispatcher));
    }
  }
}

}  // namespace

void plant_before_training(const Faults& faults, ParallelModel& model, const DeviceMesh& mesh) {
  if (faults.kind == Faults::Kind::kSkipPartial) {
    for (const auto& param : model.table.params()) {
      if (std::erase(param->partial, faults.unit) > 0) return;
    }
    throw ConfigError("--plant: no gradient is partial over \"" + faults.unit + "\"");
  }
  if (faults.kind == Faults::Kind::kScaleGradient || faults.kind == Faults::Kind::kSkipReduction) {
    bool found = false;
    for (const auto& unit : model.units) {
      if (unit->name() != faults.unit) continue;
      found = true;
      if (faults.kind == Faults::Kind::kScaleGradient) {
        unit->set_gradient_factor(2.0);
      } else {
        unit->skip_reduction();
      }
    }
    if (!found) throw ConfigError("--plant: there is no unit named \"" + faults.unit + "\"");
  }
  if (faults.kind == Faults::Kind::kDoubleWeights) apply_weights_twice(faults.unit, model);
  if (faults.kind == Faults::Kind::kPerturbReplica && mesh.rank() == faults.rank) {
    for (const auto& param : model.table.params()) {
      if (param->primary || param->value.numel() == 0) continue;
      param->value.view(-1)[0] += 1e-3;
      return;
    }
    throw ConfigError("--plant: rank " + std::to_string(faults.rank) + " holds no replica");
  }
}

void plant_in_batch(const Faults& faults, std::vector<LayerContext>& contexts) {
  if (faults.kind != Faults::Kind::kShiftLabels) return;
  for (LayerContext& context : contexts) context.labels = context.labels.roll(1);
}

void plant_in_loss(const Faults& faults, Sinks& sinks, int64_t step, int64_t rank) {
  if (faults.kind != Faults::Kind::kNonFiniteLoss || step != faults.step || rank != faults.rank)
    return;
  for (auto& [micro_batch, loss] : sinks.loss) loss.fill_(std::numeric_limits<double>::infinity());
}

}  // namespace tessera
