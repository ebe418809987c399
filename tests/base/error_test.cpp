#include "tessera/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

using ::testing::HasSubstr;

template <typename Fn>
std::string message_of(Fn fn) {
  try {
    fn();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Error, EachKindHasItsExitCode) {
  EXPECT_EQ(static_cast<int>(ConfigError("x").exit_code()), 2);
  EXPECT_EQ(static_cast<int>(CommError("x").exit_code()), 3);
  EXPECT_EQ(static_cast<int>(CheckpointError("x").exit_code()), 4);
  EXPECT_EQ(static_cast<int>(NonFiniteError("x").exit_code()), 5);
  EXPECT_EQ(static_cast<int>(InternalError("x").exit_code()), 1);
}

TEST(Error, CheckNamesExpressionPlaceAndValues) {
  const int n = 2;
  const std::string text = message_of([&] { TESSERA_CHECK(n == 3, "n = ", n); });
  EXPECT_THAT(text, HasSubstr("n == 3"));
  EXPECT_THAT(text, HasSubstr("n = 2"));
  EXPECT_THAT(text, HasSubstr("error_test.cpp"));
  EXPECT_NO_THROW(TESSERA_CHECK(n == 2));
}

TEST(Error, CheckEqPrintsBothValues) {
  const std::vector<int> shape = {4, 8};
  const std::vector<int> other = {4, 9};
  const std::string text = message_of([&] { TESSERA_CHECK_EQ(shape, other, "of ", "w"); });
  EXPECT_THAT(text, HasSubstr("[4, 8] vs [4, 9]: of w"));
  EXPECT_NO_THROW(TESSERA_CHECK_EQ(shape.size(), 2));
  EXPECT_THAT(message_of([] { TESSERA_CHECK_EQ(-1, 4294967295u); }), HasSubstr("-1 vs"));
}

TEST(Error, CheckEvaluatesItsOperandsOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  TESSERA_CHECK_EQ(next(), 1);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tessera
