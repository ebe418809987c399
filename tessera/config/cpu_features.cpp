#include "tessera/config/cpu_features.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tessera {

namespace {

// oneDNN reads the second name where the first is not set, in any case of letters. These are its
// sets of instructions without bfloat16 (or with too little of it for libtorch).
bool onednn_is_held_below_bfloat16() {
  const char* most = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (most == nullptr || *most == '\0') most = std::getenv("DNNL_MAX_CPU_ISA");
  if (most == nullptr) return false;
  std::string name = most;
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  constexpr std::array<std::string_view, 7> kWithout = {
      "SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI"};
  return std::ranges::find(kWithout, name) != kWithout.end();
}

}  // namespace

bool cpu_has_bfloat16() {
  if (onednn_is_held_below_bfloat16()) return false;
#ifdef __x86_64__
  // The processor itself says it, also where /proc is not mounted. AMX never comes without it.
  return __builtin_cpu_supports("avx512bf16");
#else
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Features")) continue;
    return (line + ' ').find(" bf16 ") != std::string::npos;
  }
  return true;
#endif
}

bool has_cuda_driver() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error);
}

}  // namespace tessera
