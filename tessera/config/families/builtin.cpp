#include "tessera/config/families/families.h"

namespace tessera {

const FamilyTable& builtin_families() {
  static const FamilyTable table({
      families::llama(),
      families::mistral(),
      families::mixtral(),
      families::qwen2(),
      families::qwen3(),
      families::qwen3_moe(),
      families::phi3(),
      families::olmo2(),
      families::olmo3(),
      families::gemma2(),
      families::gemma3_text(),
      families::glm4(),
      families::glm4_moe(),
      families::gpt_oss(),
      families::deepseek_v3(),
  });
  return table;
}

}  // namespace tessera
