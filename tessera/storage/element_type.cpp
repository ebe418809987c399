#include "tessera/storage/element_type.h"

#include <array>

#include "tessera/base/error.h"

namespace tessera {
namespace {

struct Row {
  ElementType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Row, 15> kRows{{
    {ElementType::kF64, "F64", 8},
    {ElementType::kF32, "F32", 4},
    {ElementType::kF16, "F16", 2},
    {ElementType::kBF16, "BF16", 2},
    {ElementType::kI64, "I64", 8},
    {ElementType::kI32, "I32", 4},
    {ElementType::kI16, "I16", 2},
    {ElementType::kI8, "I8", 1},
    {ElementType::kU8, "U8", 1},
    {ElementType::kBool, "BOOL", 1},
    {ElementType::kU64, "U64", 8},
    {ElementType::kU32, "U32", 4},
    {ElementType::kU16, "U16", 2},
    {ElementType::kF8E4M3, "F8_E4M3", 1},
    {ElementType::kF8E5M2, "F8_E5M2", 1},
}};

const Row& row_of(ElementType type) { return kRows.at(static_cast<size_t>(type)); }

}  // namespace

std::string_view name_of(ElementType type) { return row_of(type).name; }

int64_t size_of(ElementType type) { return row_of(type).bytes; }

std::optional<ElementType> element_type_from(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

bool is_weight_type(ElementType type) {
  return type == ElementType::kF64 || type == ElementType::kF32 || type == ElementType::kF16 ||
         type == ElementType::kBF16;
}

ElementType element_type(DType type) {
  switch (type) {
    case DType::kFloat32: return ElementType::kF32;
    case DType::kBFloat16: return ElementType::kBF16;
    case DType::kFloat64: return ElementType::kF64;
    case DType::kFloat16: return ElementType::kF16;
  }
  return ElementType::kF32;
}

DType weight_dtype(ElementType type) {
  switch (type) {
    case ElementType::kF64: return DType::kFloat64;
    case ElementType::kF32: return DType::kFloat32;
    case ElementType::kF16: return DType::kFloat16;
    case ElementType::kBF16: return DType::kBFloat16;
    default: break;
  }
  throw InternalError("weights are not kept in " + std::string(name_of(type)));
}

}  // namespace tessera
