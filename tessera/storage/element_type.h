#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/base/dtype.h"

namespace tessera {

/// Types of the elements of a stored tensor, as the safetensors format names them.
enum class ElementType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
  kU64,
  kU32,
  kU16,
  kF8E4M3,
  kF8E5M2,
};

/// "F32" and so on.
std::string_view name_of(ElementType type);
std::optional<ElementType> element_type_from(std::string_view name);

/// Bytes of one element.
int64_t size_of(ElementType type);

/// What weights are kept in: F64, F32, F16, BF16. Others are quantised and mean nothing without
/// their scales.
bool is_weight_type(ElementType type);

ElementType element_type(DType type);
/// Of a type that weights are kept in.
DType weight_dtype(ElementType type);

}  // namespace tessera
