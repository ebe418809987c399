#include "tessera/layout/axis.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(Axis, EveryAxisIsFoundByItsName) {
  std::set<std::string_view> names;
  for (const Axis axis : kAllAxes) {
    EXPECT_TRUE(names.insert(axis_name(axis)).second) << axis_name(axis);
    EXPECT_EQ(axis_from_name(axis_name(axis)), axis);
  }
  EXPECT_EQ(axis_from_name("dp"), std::nullopt);
  EXPECT_EQ(axis_from_name(""), std::nullopt);
}

TEST(Axis, NamesInARow) {
  EXPECT_EQ(axis_names(std::array{Axis::kTp, Axis::kFsdp}), "tp, fsdp");
  EXPECT_EQ(axis_names(std::array<Axis, 0>{}), "");
}

}  // namespace
}  // namespace tessera
