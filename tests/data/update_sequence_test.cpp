#include "tessera/data/update_sequence.h"

#include <gtest/gtest.h>

#include "tessera/data/deal_units.h"
#include "tessera/data/loader.h"

namespace tessera {
namespace {

std::vector<int64_t> batches(const BatchGrowth& growth, int64_t updates) {
  std::vector<int64_t> all;
  int64_t trained = 0;
  for (int64_t i = 0; i < updates; ++i) {
    all.push_back(growth.batch_at(trained));
    trained += all.back();
  }
  return all;
}

// [16, 4, 200] up to 32: four levels of 50 samples. Updates at 0, 16, 32 and 48 samples take 16; at
// 64 and 84 they take 20; at 104 and 128 they take 24; at 152 and 180 they take 28; then 32.
TEST(BatchGrowth, TheWorkedExample) {
  const BatchGrowth growth{16, 4, 200, 32};
  EXPECT_EQ(batches(growth, 12),
            (std::vector<int64_t>{16, 16, 16, 16, 20, 20, 24, 24, 28, 28, 32, 32}));
  EXPECT_EQ(growth.batch_at(200), 32);
  EXPECT_EQ(growth.batch_at(199), 28);
  const std::vector<BatchLevel> levels = batch_levels(growth, 12);
  EXPECT_EQ(
      levels,
      (std::vector<BatchLevel>{
          {16, 0, 4, 64}, {20, 4, 2, 104}, {24, 6, 2, 152}, {28, 8, 2, 208}, {32, 10, 2, 272}}));
  EXPECT_EQ(batch_levels(growth, 5), (std::vector<BatchLevel>{{16, 0, 4, 64}, {20, 4, 1, 84}}));
}

TEST(BatchGrowth, PartsOfALevelThatAreNoWholeNumber) {
  // Three levels over 10 samples: floor(c x 3 / 10).
  const BatchGrowth growth{2, 2, 10, 8};
  EXPECT_EQ(growth.batch_at(3), 2);
  EXPECT_EQ(growth.batch_at(4), 4);
  EXPECT_EQ(growth.batch_at(6), 4);
  EXPECT_EQ(growth.batch_at(7), 6);
  EXPECT_EQ(growth.batch_at(10), 8);
}

TEST(BatchGrowth, NothingToGrow) {
  EXPECT_FALSE(BatchGrowth::fixed(8).grows());
  EXPECT_EQ(BatchGrowth::fixed(8).batch_at(0), 8);
  EXPECT_EQ((BatchGrowth{4, 4, 0, 16}).batch_at(0), 16) << "no samples: the last at once";
  EXPECT_EQ((BatchGrowth{16, 4, 100, 16}).batch_at(5), 16);
}

TEST(UpdateSequence, JumpsWhereItWouldStep) {
  for (const bool drop : {true, false}) {
    for (const BatchGrowth& growth :
         {BatchGrowth::fixed(6), BatchGrowth{2, 2, 30, 8}, BatchGrowth{4, 4, 200, 16}}) {
      const UpdateSequence updates(growth, 20, drop);
      UpdateSpan span = updates.at(0);
      for (int64_t step = 0; step < 60; ++step) {
        EXPECT_EQ(updates.at(step), span) << step;
        EXPECT_EQ(updates.from(span.step, span.samples, span.place), span) << "a resumed run";
        if (drop) {
          EXPECT_LE(span.place % 20 + span.batch, 20) << "an update lies in one pass";
        }
        span = updates.after(span);
      }
    }
  }
}

// Which samples each update holds, written down by hand: 2, 2, 4, 6, 6 of ten samples a pass.
TEST(UpdateSequence, SamplesOfUpdatesThatGrow) {
  class Ids : public SampleSource {
   public:
    int64_t size() const override { return 10; }
    int64_t sample_length() const override { return 3; }
    int64_t read(int64_t, std::span<int64_t> tokens) const override {
      std::ranges::fill(tokens, 7);
      return 3;
    }
  };
  const auto source = std::make_shared<const Ids>();
  // Two levels of four samples each: at 0 and 2 it takes 2, at 4 it takes 4, at 8 and after it 6.
  const BatchGrowth used{2, 2, 8, 6};
  for (const int64_t ranks : {1, 2}) {
    LoaderOptions options;
    options.batch_degree = ranks;
    options.micro_batches = 6 / ranks;
    const UpdateSequence updates(used, 10, true);
    UpdateSpan span = updates.at(0);
    const std::vector<std::vector<int64_t>> by_hand = {
        {0, 1}, {2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}};
    for (const auto& ids : by_hand) {
      std::vector<int64_t> seen;
      for (options.batch_rank = 0; options.batch_rank < ranks; ++options.batch_rank) {
        for (const MicroBatch& batch : Loader(source, options).load(span)) {
          seen.insert(seen.end(), batch.sample_ids.begin(), batch.sample_ids.end());
        }
      }
      EXPECT_EQ(seen, ids) << "step " << span.step;
      span = updates.after(span);
    }
  }
}

// Loads 1 to 8 in order over two ranks: sorted, then forwards and backwards.
TEST(DealUnits, InTurnsForwardsAndBackwards) {
  // Rank 0 had 1 2 3 4, rank 1 had 5 6 7 8.
  const std::vector<int64_t> dealt = deal_units({1, 2, 3, 4, 5, 6, 7, 8}, 2, 4);
  EXPECT_EQ(dealt, (std::vector<int64_t>{0, 3, 4, 7, 1, 2, 5, 6}));
}

TEST(DealUnits, StaysWhereItIsNoBetter) {
  const std::vector<int64_t> usual = {0, 1, 2, 3};
  EXPECT_EQ(deal_units({5, 5, 5, 5}, 2, 2), usual) << "equal";
  EXPECT_EQ(deal_units({1, 9, 1, 9}, 2, 2), usual) << "as even already";
  EXPECT_EQ(deal_units({1, 9, 2, 8}, 1, 4), usual) << "one rank";
  EXPECT_EQ(deal_units({1, 9, 2, 8}, 4, 1), usual) << "one micro-batch";
}

}  // namespace
}  // namespace tessera
