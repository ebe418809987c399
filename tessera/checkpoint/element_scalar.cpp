#include "tessera/checkpoint/element_scalar.h"

#include <array>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

constexpr std::array<std::pair<ElementType, at::ScalarType>, 15> kPairs{{
    {ElementType::kF64, at::kDouble},
    {ElementType::kF32, at::kFloat},
    {ElementType::kF16, at::kHalf},
    {ElementType::kBF16, at::kBFloat16},
    {ElementType::kI64, at::kLong},
    {ElementType::kI32, at::kInt},
    {ElementType::kI16, at::kShort},
    {ElementType::kI8, at::kChar},
    {ElementType::kU8, at::kByte},
    {ElementType::kBool, at::kBool},
    {ElementType::kU64, at::kUInt64},
    {ElementType::kU32, at::kUInt32},
    {ElementType::kU16, at::kUInt16},
    {ElementType::kF8E4M3, at::kFloat8_e4m3fn},
    {ElementType::kF8E5M2, at::kFloat8_e5m2},
}};

}  // namespace

at::ScalarType scalar_type(ElementType type) {
  for (const auto& [element, scalar] : kPairs) {
    if (element == type) return scalar;
  }
  throw InternalError("libtorch has no " + std::string(name_of(type)));
}

ElementType element_type(at::ScalarType type) {
  for (const auto& [element, scalar] : kPairs) {
    if (scalar == type) return element;
  }
  throw InternalError(std::string("no file can hold ") + c10::toString(type));
}

}  // namespace tessera
