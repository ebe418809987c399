#include "tessera/layout/updates/moment_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tessera/layout/updates/moment_batches.h"
#include "tessera/layout/updates/moment_type.h"

namespace tessera {
namespace {

struct Cut {
  int64_t rows, columns;
  std::vector<int64_t> row_cuts, column_cuts;  // with 0 and the end
};

const std::vector<Cut> kCuts = {
    {7, 100, {0, 3, 7}, {0, 100}},          {7, 100, {0, 7}, {0, 50, 100}},
    {6, 512, {0, 2, 5, 6}, {0, 512}},       {6, 512, {0, 3, 6}, {0, 256, 512}},
    {6, 512, {0, 3, 6}, {0, 171, 512}},     {40, 30, {0, 11, 40}, {0, 7, 30}},
    {1, 1000, {0, 1}, {0, 300, 600, 1000}}, {300, 1, {0, 299, 300}, {0, 1}},
};

template <typename Visit>
void for_each_box(const Cut& cut, Visit visit) {
  for (size_t r = 0; r + 1 < cut.row_cuts.size(); ++r) {
    for (size_t c = 0; c + 1 < cut.column_cuts.size(); ++c) {
      visit(Box{
          {cut.row_cuts[r], cut.column_cuts[c]},
          {cut.row_cuts[r + 1] - cut.row_cuts[r], cut.column_cuts[c + 1] - cut.column_cuts[c]}});
    }
  }
}

TEST(MomentBlocks, RunsAndNumbersAreThoseOfTheElements) {
  for (const Cut& cut : kCuts) {
    for_each_box(cut, [&](const Box& box) {
      const MatrixBlocks blocks = matrix_blocks(cut.columns, box);
      std::vector<int64_t> places;  // in the whole matrix, by place in the part
      std::set<int64_t> touched;
      for (int64_t r = 0; r < box.sizes[0]; ++r) {
        for (int64_t c = 0; c < box.sizes[1]; ++c) {
          places.push_back((box.offsets[0] + r) * cut.columns + box.offsets[1] + c);
          touched.insert(places.back() / kMomentBlock);
        }
      }
      const std::vector<int64_t> numbers = blocks.numbers();
      EXPECT_EQ(numbers, std::vector<int64_t>(touched.begin(), touched.end()));
      int64_t covered = 0;
      for (const BlockRun& run : blocks.runs) {
        for (int64_t i = 0; i < run.length; ++i) {
          EXPECT_EQ(places[static_cast<size_t>(run.local + i)], run.first + i);
        }
        EXPECT_EQ(numbers[static_cast<size_t>(run.block)], run.first / kMomentBlock);
        covered += run.length;
      }
      EXPECT_EQ(covered, box.numel());
    });
  }
  EXPECT_TRUE(matrix_blocks(5, {{2, 0}, {0, 5}}).runs.empty());
}

TEST(MomentBlocks, DividedAreThoseOfSeveralParts) {
  for (const Cut& cut : kCuts) {
    std::map<int64_t, int> parts;
    CutLines lines;
    for_each_box(cut, [&](const Box& box) {
      for (const int64_t block : matrix_blocks(cut.columns, box).numbers()) ++parts[block];
      lines.rows.insert(box.offsets[0]);
      lines.columns.insert(box.offsets[1]);
    });
    std::vector<int64_t> expected;
    for (const auto& [block, count] : parts) {
      if (count > 1) expected.push_back(block);
    }
    EXPECT_EQ(divided_blocks(cut.rows, cut.columns, lines), expected);
  }
}

TEST(MomentBatches, HoldEveryTensorOnceInEveryOrder) {
  const ParallelDims dims{.world = 2, .dp_shard = 2};
  const std::vector<AxisCut> rows = {{Axis::kFsdp, 0, 1}};
  std::vector<MomentTensor> tensors = {{"c", {4096, 1024}, rows, 2},
                                       {"a", {1024, 1024}, rows, 1},
                                       {"norm", {8}, rows, 0},
                                       {"b", {1024, 1024}, rows, 1},
                                       {"d", {64, 64}, rows, 2}};
  const auto names = [&] {
    std::vector<std::vector<std::string>> result;
    for (const auto& batch : moment_batches(tensors, dims, 1)) {
      result.emplace_back();
      for (const size_t i : batch) result.back().push_back(tensors[i].name);
    }
    return result;
  };
  using Names = std::vector<std::vector<std::string>>;
  EXPECT_EQ(names(), (Names{{"norm"}, {"a", "b"}, {"c"}, {"d"}}));
  std::swap(tensors[0], tensors[4]);
  EXPECT_EQ(names(), (Names{{"norm"}, {"a", "b"}, {"c"}, {"d"}}));
}

TEST(MomentType, SmallTensorsAndVectorsStay) {
  OptimizerConfig config;
  const Slot slot{"exp_avg", Slot::Values::kSigned};
  const auto type = [&](std::vector<int64_t> shape, const Slot& of) {
    return moment_type(config, of, {shape.size() > 2 ? "w.{e}" : "w", ParamRole::kMlpUp, shape});
  };
  EXPECT_EQ(type({64, 64}, slot), MomentType::kMaster);
  config.moment_dtype = "int8";
  EXPECT_EQ(type({64, 64}, slot), MomentType::kInt8);
  EXPECT_EQ(type({63, 65}, slot), MomentType::kMaster);
  EXPECT_EQ(type({8, 63, 65}, slot), MomentType::kMaster);  // eight of 4095
  EXPECT_EQ(type({8, 64, 64}, slot), MomentType::kInt8);
  EXPECT_EQ(type({100000}, slot), MomentType::kMaster);
  EXPECT_EQ(moment_type(config, slot, {"bias.{e}", ParamRole::kExpertUpBias, {64, 64}}),
            MomentType::kMaster);  // a stack of vectors
  EXPECT_EQ(type({64, 64}, {"momentum_buffer"}), MomentType::kMaster);
  config.moment_dtype = "bfloat16";
  EXPECT_EQ(type({64, 64}, slot), MomentType::kBfloat16);
}

}  // namespace
}  // namespace tessera
