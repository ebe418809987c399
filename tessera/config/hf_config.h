#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/family.h"
#include "tessera/config/issue.h"
#include "tessera/config/yaml/value.h"
#include "tessera/config/yaml/yaml_reader.h"

namespace tessera {

/// The config.json of a Hugging Face folder, as far as it shapes the model or changes its
/// mathematics. Keys that only concern training (router_aux_loss_coef, dropouts,
/// initializer_range, pad_token_id, dtype, ...), generation, or the head size under latent
/// attention are left out.
struct HfConfig {
  std::string model_type;  // the family's, also where the file has a name that is only alike
  std::shared_ptr<const Family> family;  // of that name; null when there is none
  Value document;                        // what `keys` points into
  std::vector<Value> implied;            // likewise
  std::vector<Given> keys;
  std::optional<DType> dtype;  // in which the folder's weights are said to be
};

/// Reads `directory`/config.json. What is wrong with it is appended to `issues`. A config.json
/// without model_type is of the family that its `architectures` names, else of `otherwise`.
std::unique_ptr<HfConfig> read_hf_config(const std::string& directory, const FamilyTable& families,
                                         const std::string& otherwise, std::vector<Issue>& issues);

}  // namespace tessera
