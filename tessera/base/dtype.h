#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// Floating-point types of parameters and computation.
enum class DType { kFloat32, kBFloat16, kFloat64, kFloat16 };

/// "float32", "bfloat16", "float64", "float16": as in the YAML.
std::string to_string(DType dtype);

/// Accepts the names of to_string and the short forms fp32, bf16, fp64, fp16; any case.
std::optional<DType> dtype_from_string(std::string_view name);

/// Bytes of one element.
int64_t size_of(DType dtype);

}  // namespace tessera
