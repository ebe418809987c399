#include "tessera/nn/flash/functions.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/nn/flash/block.h"
#include "tessera/nn/flash/set_functions.h"

namespace tessera::kernels::flash {

namespace {

bool has(InstructionSet set) {
  if (set == InstructionSet::kPlain) return true;
#if TESSERA_FLASH_X86
  if (set == InstructionSet::kAvx2) return __builtin_cpu_supports("x86-64-v3") > 0;
  return __builtin_cpu_supports("x86-64-v4") > 0;
#else
  return false;
#endif
}

InstructionSet most_allowed() {
  const char* const told = std::getenv("ATEN_CPU_CAPABILITY");
  const std::string_view name = told ? told : "";
  if (name == "default") return InstructionSet::kPlain;
  return name == "avx2" ? InstructionSet::kAvx2 : InstructionSet::kAvx512;
}

}  // namespace

int64_t query_blocks(int64_t queries) { return divide_up(queries, kForwardQueries); }

template <typename T>
const Functions<T>& functions_of(InstructionSet set) {
  TESSERA_CHECK(has(set), "this processor lacks the instruction set");
#if TESSERA_FLASH_X86
  if (set == InstructionSet::kAvx512) return avx512_functions<T>();
  if (set == InstructionSet::kAvx2) return avx2_functions<T>();
#endif
  return plain_functions<T>();
}

template const Functions<float>& functions_of<float>(InstructionSet);
template const Functions<double>& functions_of<double>(InstructionSet);
template const Functions<Bf16>& functions_of<Bf16>(InstructionSet);

std::vector<InstructionSet> instruction_sets_here() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kPlain, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (has(set)) sets.push_back(set);
  }
  return sets;
}

InstructionSet chosen_instruction_set() {
  static const InstructionSet chosen = std::min(instruction_sets_here().back(), most_allowed());
  return chosen;
}

}  // namespace tessera::kernels::flash
