#include "tests/fuzz/targets.h"

namespace tessera::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"yaml", read_yaml},
      {"overrides", read_overrides},
      {"config_json", read_config_json},
      {"weights", read_weights},
      {"weight_index", read_weight_index},
      {"manifest", read_manifest_text},
      {"token_index", read_token_index},
      {"documents", read_documents},
      {"msrun_flags", read_msrun_flags},
      {"script_arguments", read_script_arguments},
      {"environment", read_environment},
  };
  return all;
}

}  // namespace tessera::fuzz
