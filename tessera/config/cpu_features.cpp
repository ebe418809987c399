#include "tessera/config/cpu_features.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {

bool cpu_has_bfloat16() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    line += ' ';
    for (const char* unit : {" avx512_bf16 ", " amx_bf16 ", " bf16 "}) {
      if (line.find(unit) != std::string::npos) return true;
    }
    return false;
  }
  return true;
}

bool has_cuda_driver() {
  std::error_code error;
  return std::filesystem::exists("/dev/nvidiactl", error);
}

}  // namespace tessera
