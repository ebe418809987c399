#include "tessera/storage/box_copy.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

TEST(BoxCopy, Intersection) {
  EXPECT_EQ(intersection({{0, 2}, {4, 3}}, {{2, 0}, {4, 3}}), (Box{{2, 2}, {2, 1}}));
  EXPECT_FALSE(intersection({{0, 0}, {4, 3}}, {{4, 0}, {4, 3}}));
  EXPECT_FALSE(intersection({{0, 0}, {4, 0}}, {{0, 0}, {4, 3}}));
  EXPECT_EQ(intersection({{}, {}}, {{}, {}}), (Box{{}, {}}));
}

TEST(BoxCopy, WholeBoxesAreOneRun) {
  const Box whole{{0, 0, 0}, {3, 4, 5}};
  int runs = 0;
  for_each_run(whole, whole, whole, [&](int64_t from, int64_t to, int64_t count) {
    EXPECT_EQ(from, 0);
    EXPECT_EQ(to, 0);
    EXPECT_EQ(count, 60);
    ++runs;
  });
  EXPECT_EQ(runs, 1);
  for_each_run({{}, {}}, {{}, {}}, {{}, {}}, [&](int64_t, int64_t, int64_t count) {
    EXPECT_EQ(count, 1);
    ++runs;
  });
  EXPECT_EQ(runs, 2);
}

// Each element of the common box moves to its own place, in every number of dimensions.
TEST(BoxCopy, RandomBoxesMoveEveryElementOnce) {
  std::mt19937 random(3);
  const auto random_box = [&](const std::vector<int64_t>& shape) {
    Box box;
    for (const int64_t extent : shape) {
      const auto begin = static_cast<int64_t>(random() % static_cast<uint64_t>(extent));
      const auto size = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(extent - begin));
      box.offsets.push_back(begin);
      box.sizes.push_back(size);
    }
    return box;
  };
  // The global index of element `flat` of the array of a box.
  const auto global = [](int64_t flat, const Box& box, const std::vector<int64_t>& shape) {
    std::vector<int64_t> index(shape.size());
    for (size_t d = shape.size(); d-- > 0;) {
      index[d] = box.offsets[d] + flat % box.sizes[d];
      flat /= box.sizes[d];
    }
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + index[d];
    return place;
  };
  int tried = 0;
  for (int i = 0; i < 2000; ++i) {
    const size_t dims = 1 + random() % 4;
    std::vector<int64_t> shape;
    for (size_t d = 0; d < dims; ++d) shape.push_back(1 + static_cast<int64_t>(random() % 5));
    const Box from = random_box(shape), to = random_box(shape);
    const auto common = intersection(from, to);
    if (!common) continue;
    ++tried;
    int64_t moved = 0;
    for_each_run(*common, from, to, [&](int64_t source, int64_t target, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        ASSERT_EQ(global(source + k, from, shape), global(target + k, to, shape));
      }
      moved += count;
    });
    ASSERT_EQ(moved, common->numel());
  }
  EXPECT_GT(tried, 500);
}

}  // namespace
}  // namespace tessera
