#include "tessera/base/dtype.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(DTypeNames, RoundTripAndSizes) {
  for (const auto& [dtype, size] : {std::pair{DType::kFloat32, 4}, std::pair{DType::kBFloat16, 2},
                                    std::pair{DType::kFloat64, 8}, std::pair{DType::kFloat16, 2}}) {
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
    EXPECT_EQ(size_of(dtype), size);
  }
  EXPECT_EQ(dtype_from_string("BF16"), DType::kBFloat16);
  EXPECT_EQ(dtype_from_string("fp32"), DType::kFloat32);
  EXPECT_EQ(dtype_from_string("int8"), std::nullopt);
}

}  // namespace
}  // namespace tessera
