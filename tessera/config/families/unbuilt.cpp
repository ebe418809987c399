#include "tessera/config/families/unbuilt.h"

namespace tessera {
namespace {

constexpr UnbuiltFamily kUnbuilt[] = {
    {"deepseek_v4", "DeepseekV4ForCausalLM", "DeepSeek-V4"},
    {"internlm2", "InternLM2ForCausalLM", "InternLM2, whose wqkv holds q, k and v group by group,"},
};

}  // namespace

const UnbuiltFamily* find_unbuilt_family(std::string_view name) {
  for (const UnbuiltFamily& family : kUnbuilt) {
    if (family.model_type == name || family.architecture == name) return &family;
  }
  return nullptr;
}

}  // namespace tessera
