#include "tessera/nn/init.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

at::Tensor filled(const std::vector<int64_t>& shape, const Box& box, at::ScalarType type,
                  const std::string& name = "model.layers.0.mlp.up_proj.weight",
                  uint64_t seed = 42) {
  at::Tensor out = at::empty(box.sizes, at::TensorOptions().dtype(type));
  fill(out, InitKind::kNormal, 0.02, seed, name, shape, box);
  return out;
}

at::Tensor cut(const at::Tensor& whole, const Box& box) {
  at::Tensor part = whole;
  for (size_t dim = 0; dim < box.sizes.size(); ++dim) {
    part = part.narrow(static_cast<int64_t>(dim), box.offsets[dim], box.sizes[dim]);
  }
  return part;
}

TEST(Init, ASliceAlongAnyDimensionHasTheBitsOfTheWhole) {
  const std::vector<int64_t> shape{7, 13, 37};
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor whole = filled(shape, {{0, 0, 0}, shape}, type);
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (const int64_t parts : {2, 3, 5}) {
        for (int64_t index = 0; index < parts; ++index) {
          const auto at = static_cast<size_t>(dim);
          const Range range = part_of(shape[at], parts, index);
          Box box{{0, 0, 0}, shape};
          box.offsets[at] = range.begin;
          box.sizes[at] = range.size();
          EXPECT_TRUE(at::equal(filled(shape, box, type), cut(whole, box)))
              << "dimension " << dim << " part " << index << " of " << parts;
        }
      }
    }
    const Box inner{{2, 3, 5}, {4, 7, 30}};
    EXPECT_TRUE(at::equal(filled(shape, inner, type), cut(whole, inner)));
  }
}

TEST(Init, ThePartsOfAVectorAndAnEmptyPart) {
  const std::vector<int64_t> shape{1031};
  const at::Tensor whole = filled(shape, {{0}, shape}, at::kFloat);
  const Box box{{515}, {516}};
  EXPECT_TRUE(at::equal(filled(shape, box, at::kFloat), cut(whole, box)));
  EXPECT_EQ(filled(shape, {{1031}, {0}}, at::kFloat).numel(), 0);
}

TEST(Init, AStridedTargetGetsTheSameValues) {
  const std::vector<int64_t> shape{6, 10};
  const at::Tensor whole = filled(shape, {{0, 0}, shape}, at::kFloat);
  at::Tensor target = at::empty({10, 6}, at::kFloat).t();
  fill(target, InitKind::kNormal, 0.02, 42, "model.layers.0.mlp.up_proj.weight", shape,
       {{0, 0}, shape});
  EXPECT_TRUE(at::equal(target, whole));
}

TEST(Init, SeedNameAndSpreadMatter) {
  const std::vector<int64_t> shape{64, 1024};
  const Box all{{0, 0}, shape};
  const at::Tensor a = filled(shape, all, at::kDouble);
  EXPECT_FALSE(at::equal(a, filled(shape, all, at::kDouble, "other")));
  EXPECT_FALSE(
      at::equal(a, filled(shape, all, at::kDouble, "model.layers.0.mlp.up_proj.weight", 43)));
  EXPECT_NEAR(a.std().item<double>(), 0.02, 2e-4);
  EXPECT_NEAR(a.mean().item<double>(), 0.0, 4e-4);
}

TEST(Init, OnesAndZeros) {
  at::Tensor out = at::empty({3}, at::kFloat);
  ParameterPart part;
  part.name = "norm";
  part.shape = {9};
  part.init = InitKind::kOnes;
  fill(out, part, 1, {{3}, {3}});
  EXPECT_TRUE(at::equal(out, at::ones({3})));
  part.init = InitKind::kZeros;
  fill(out, part, 1, {{3}, {3}});
  EXPECT_TRUE(at::equal(out, at::zeros({3})));
}

TEST(Init, ABoxOfAnotherShapeIsOurMistake) {
  at::Tensor out = at::empty({3}, at::kFloat);
  EXPECT_THROW(fill(out, InitKind::kNormal, 1, 1, "x", {9}, {{0}, {4}}), InternalError);
}

}  // namespace
}  // namespace tessera
