#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace tessera::test {

/// |actual - expected| <= tolerance |expected|; exact where expected is 0. Never true of a NaN.
inline testing::AssertionResult near_rel(const char* actual_text, const char* expected_text,
                                         const char*, double actual, double expected,
                                         double tolerance) {
  const double difference = std::abs(actual - expected);
  if (difference <= tolerance * std::abs(expected)) return testing::AssertionSuccess();
  std::ostringstream out;
  out.precision(17);
  out << actual_text << " = " << actual << "\n" << expected_text << " = " << expected << "\n";
  out.precision(3);
  out << "relative difference " << difference / std::abs(expected) << ", allowed " << tolerance;
  return testing::AssertionFailure() << out.str();
}

}  // namespace tessera::test

#define EXPECT_NEAR_REL(actual, expected, tolerance) \
  EXPECT_PRED_FORMAT3(::tessera::test::near_rel, actual, expected, tolerance)
