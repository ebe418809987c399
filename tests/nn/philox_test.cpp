#include "tessera/nn/kernels/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tessera {
namespace {

// Known answers of the authors' library (Random123, kat_vectors: philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox(~uint64_t{0}, {ones, ones, ones, ones}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordsAreTheCountersInOrder) {
  std::vector<uint32_t> words(1000);
  philox_words(77, 5, 0x900000008, 3, 1000, words.data());
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t place = 3 + i;
    EXPECT_EQ(words[i], philox(77, {place / 4, 5, 8, 9})[place % 4]) << i;
  }
}

// The same numbers by the C library, from the same words.
TEST(Philox, NormalNumbersAreBoxMullerOfTheWords) {
  std::vector<double> numbers(4000);
  const uint64_t begin = (uint64_t{1} << 34) - 1999;  // crosses the carry into the second word
  philox_normal(3, begin, 4000, numbers.data());
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t index = begin + i;
    const uint64_t block = index / 4;
    const auto words =
        philox(3, {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0});
    const size_t pair = index % 4 / 2;
    const double u = (words[2 * pair] + 0.5) / 4294967296.0;
    const double angle = 2 * std::numbers::pi * ((words[2 * pair + 1] + 0.5) / 4294967296.0);
    const double radius = std::sqrt(-2 * std::log(u));
    const double expected = radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
    EXPECT_NEAR(numbers[i], expected, 4e-15) << i;
  }
}

TEST(Philox, NormalNumbersDoNotDependOnWhereOneStarts) {
  std::vector<double> whole(3000);
  philox_normal(11, 0, 3000, whole.data());
  for (const int64_t begin : {0, 1, 2, 3, 5, 255, 256, 257, 1000}) {
    for (const int64_t count : {1, 3, 4, 255, 256, 300, 1500}) {
      std::vector<double> part(static_cast<size_t>(count));
      philox_normal(11, static_cast<uint64_t>(begin), count, part.data());
      for (size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(part[i], whole[static_cast<size_t>(begin) + i]) << begin << " " << count;
      }
    }
  }
}

// The bits themselves: what another machine, compiler or instruction set must also give.
TEST(Philox, NormalNumbersAreTheseBits) {
  double numbers[4];
  philox_normal(philox_key(42, "model.norm.weight"), 0, 4, numbers);
  EXPECT_EQ(numbers[0], -0x1.d3bf7ac7c69d7p-1);
  EXPECT_EQ(numbers[1], 0x1.2095264a8d021p-1);
  EXPECT_EQ(numbers[2], -0x1.29e5cbd23994p+0);
  EXPECT_EQ(numbers[3], -0x1.e39f809f953d1p-3);
}

TEST(Philox, NormalNumbersHaveTheRightMoments) {
  std::vector<double> numbers(1 << 20);
  philox_normal(9, 0, static_cast<int64_t>(numbers.size()), numbers.data());
  double moments[5] = {};
  double product = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    double power = 1;
    for (double& moment : moments) {
      moment += power / static_cast<double>(numbers.size());
      power *= numbers[i];
    }
    product += numbers[i] * numbers[i ^ 1] / static_cast<double>(numbers.size());
  }
  EXPECT_NEAR(moments[1], 0, 4e-3);
  EXPECT_NEAR(moments[2], 1, 6e-3);
  EXPECT_NEAR(moments[3], 0, 2e-2);
  EXPECT_NEAR(moments[4], 3, 4e-2);
  EXPECT_NEAR(product, 0, 4e-3);
}

TEST(Philox, KeysTellSeedsAndNamesApart) {
  EXPECT_NE(philox_key(1, "a"), philox_key(2, "a"));
  EXPECT_NE(philox_key(1, "a"), philox_key(1, "b"));
  EXPECT_NE(philox_key(1, "ab"), philox_key(1, "ba"));
  EXPECT_NE(philox_key(1, uint64_t{2}), philox_key(2, uint64_t{1}));
}

}  // namespace
}  // namespace tessera
