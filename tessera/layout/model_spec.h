#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/config/param_role.h"

namespace tessera {

struct ParamSpec {
  std::string name;            // Hugging Face name
  std::vector<int64_t> shape;  // as in the file: [out, in] for matrices
  ParamRole role = ParamRole::kNorm;
  int64_t layer = -1;     // decoder layer (MTP layers follow), -1 outside the layers
  int64_t expert = -1;    // index of the routed expert, else -1
  std::string tied_to;    // name of the parameter whose storage this is, else empty
  bool trainable = true;  // false: a buffer such as the router's selection bias

  int64_t numel() const;
};

/// "model.layers.3.", in front of the names in a layer; "" for -1, outside the layers.
std::string layer_prefix(int64_t layer);

/// All parameters of the model in its order: embedding, layers, final norm, head, multi-token
/// prediction. What a layer has follows from the family's LayerDesign and the sizes of the model. A
/// tied head is listed, with tied_to set.
std::vector<ParamSpec> model_spec(const ModelConfig& model);

/// Elements of the trainable parameters, tied ones counted once.
int64_t count_parameters(const std::vector<ParamSpec>& spec);

}  // namespace tessera
