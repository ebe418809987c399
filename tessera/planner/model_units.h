#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/config/model_config.h"
#include "tessera/layout/model_spec.h"

namespace tessera {

/// Equal tensors of one unit.
struct TensorGroup {
  ParamRole role = ParamRole::kNorm;
  std::vector<int64_t> shape;      // experts: stacked [experts, out, in]
  std::vector<std::string> names;  // Hugging Face names, one each; "{e}" stands for the expert
  int64_t count = 1;
  DType compute = DType::kFloat32;  // of the gathered copy
  DType held = DType::kFloat32;     // of the ranks' own parts
  bool frozen = false;              // no gradients, no moments

  int64_t elements() const;  // of all `count`
};

/// What is gathered and freed together: the embedding, a layer, the final norm with the head.
struct ModelUnit {
  enum class Kind { kEmbedding, kLayer, kHead };
  Kind kind = Kind::kLayer;
  int64_t layer = -1;  // kLayer; multi-token prediction layers follow the decoder's
  std::vector<TensorGroup> tensors;
  std::set<ParamRole> adapted;  // matrices that have low-rank adapters
  bool trains = true;           // it, or a unit before it, has something to train
  bool trains_before = true;    // a unit before it has
  int64_t constants = 0;        // elements that no gradient moves, whole on every rank
  bool uses_embedding = false;  // a tied head, multi-token prediction
  bool is_copy = false;         // the embedding for such uses, where tokens are not looked up

  int64_t elements() const;
};

/// The parameters of the model by unit, those that are frozen too, in the order of the model. A
/// tied head is not listed: its unit uses the embedding's.
std::vector<ModelUnit> model_units(const ModelConfig& model);

}  // namespace tessera
