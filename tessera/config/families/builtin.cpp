#include "tessera/config/families/families.h"

namespace tessera {

const FamilyTable& builtin_families() {
  static const FamilyTable table({
      families::llama(),
      families::qwen2(),
      families::qwen3(),
      families::qwen3_moe(),
      families::deepseek_v3(),
  });
  return table;
}

}  // namespace tessera
