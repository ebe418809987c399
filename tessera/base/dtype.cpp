#include "tessera/base/dtype.h"

#include <algorithm>
#include <cctype>

namespace tessera {

std::string to_string(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "float32";
    case DType::kBFloat16: return "bfloat16";
    case DType::kFloat64: return "float64";
    case DType::kFloat16: return "float16";
  }
  return "unknown";
}

std::optional<DType> dtype_from_string(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "float32" || lower == "fp32") return DType::kFloat32;
  if (lower == "bfloat16" || lower == "bf16") return DType::kBFloat16;
  if (lower == "float64" || lower == "fp64") return DType::kFloat64;
  if (lower == "float16" || lower == "fp16") return DType::kFloat16;
  return std::nullopt;
}

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return 4;
    case DType::kBFloat16: return 2;
    case DType::kFloat64: return 8;
    case DType::kFloat16: return 2;
  }
  return 0;
}

}  // namespace tessera
