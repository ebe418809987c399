#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/model_config.h"
#include "tessera/config/param_role.h"

namespace tessera {

/// Where a parameter lies in a tensor of the published model that holds several (PublishedStack).
struct StackPlace {
  std::string tensor;           // full name
  std::vector<int64_t> shape;   // of the tensor
  std::vector<int64_t> prefix;  // indices in front of the rest: the expert's, or none
  // Row i of the parameter is row first_row + i * row_step of what the prefix leaves, which is
  // stored [in, out] if `transposed`.
  int64_t first_row = 0;
  int64_t row_step = 1;
  bool transposed = false;
};

struct ParamSpec {
  std::string name;            // Hugging Face name
  std::vector<int64_t> shape;  // as in the file: [out, in] for matrices
  ParamRole role = ParamRole::kNorm;
  int64_t layer = -1;               // decoder layer (MTP layers follow), -1 outside the layers
  int64_t expert = -1;              // index of the routed expert, else -1
  std::string tied_to;              // name of the parameter whose storage this is, else empty
  std::optional<StackPlace> stack;  // where the files of the family hold it, if not by itself
  bool trainable = true;            // false: a buffer such as the router's selection bias
  bool frozen = false;              // stays as it is while adapters are trained
  std::string adapts;               // A or B of an adapter: the name of its matrix

  int64_t numel() const;
};

/// "model.layers.3.", in front of the names in a layer; "" for -1, outside the layers.
std::string layer_prefix(int64_t layer);

/// All parameters of the model in its order: embedding, layers, final norm, head, multi-token
/// prediction. What a layer has follows from the family's LayerDesign and the sizes of the model. A
/// tied head is listed, with tied_to set. With model.lora each adapted matrix is followed by its A
/// and its B, and all others are frozen. Throws ConfigError for a pattern that is no regular
/// expression.
std::vector<ParamSpec> model_spec(const ModelConfig& model);

/// Which parameters of a model a folder holds: all, all that are no adapters, or adapters alone.
enum class WeightRows { kAll, kBase, kAdapters };

std::vector<ParamSpec> select_rows(std::vector<ParamSpec> spec, WeightRows rows);

/// Elements of the parameters, frozen ones too, tied ones counted once.
int64_t count_parameters(const std::vector<ParamSpec>& spec);
/// Elements of those that are trained.
int64_t count_trained(const std::vector<ParamSpec>& spec);

}  // namespace tessera
