#include "tessera/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tessera/base/error.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using Ids = std::vector<int64_t>;

// Sample i holds 1000 i, 1000 i + 1, …; every fifth token is the EOD 7. The last sample can be
// short.
class Counting : public SampleSource {
 public:
  Counting(int64_t size, int64_t seq_length, int64_t missing = 0)
      : size_(size), length_(seq_length + 1), missing_(missing) {}
  int64_t size() const override { return size_; }
  int64_t sample_length() const override { return length_; }
  int64_t read(int64_t index, std::span<int64_t> tokens) const override {
    const int64_t real = length_ - (index + 1 == size_ ? missing_ : 0);
    for (int64_t i = 0; i < real; ++i) {
      tokens[static_cast<size_t>(i)] = i % 5 == 4 ? 7 : 1000 * index + i;
    }
    return real;
  }

 private:
  int64_t size_;
  int64_t length_;
  int64_t missing_;
};

LoaderOptions layout(int64_t degree, int64_t local, int64_t micro_batches) {
  LoaderOptions options;
  options.batch_degree = degree;
  options.local_batch_size = local;
  options.micro_batches = micro_batches;
  options.columns.eod = 7;
  return options;
}

std::vector<std::vector<MicroBatch>> all_ranks(const std::shared_ptr<const SampleSource>& source,
                                               LoaderOptions options, int64_t step) {
  std::vector<std::vector<MicroBatch>> ranks;
  for (options.batch_rank = 0; options.batch_rank < options.batch_degree; ++options.batch_rank) {
    ranks.push_back(Loader(source, options).load(step));
  }
  return ranks;
}

TEST(Loader, TheLayoutOnlyDecidesWhoReadsWhat) {
  const auto source = std::make_shared<const Counting>(50, 10);
  for (const int64_t step : {0, 1, 5, 6, 13}) {
    std::set<Ids> micro_batches_of_two;
    for (const int64_t degree : {1, 2, 4}) {
      const auto options = layout(degree, 2, 4 / degree);
      Ids seen;
      std::set<Ids> micro_batches;
      for (const auto& rank : all_ranks(source, options, step)) {
        EXPECT_EQ(static_cast<int64_t>(rank.size()), 4 / degree);
        for (const MicroBatch& batch : rank) {
          seen.insert(seen.end(), batch.sample_ids.begin(), batch.sample_ids.end());
          micro_batches.insert(batch.sample_ids);
          for (size_t row = 0; row < 2; ++row) {
            EXPECT_EQ(batch.input_ids[10 * row], 1000 * batch.sample_ids[row]);
          }
        }
      }
      EXPECT_EQ(seen, Loader(source, options).step_samples(step));
      Ids expected(8);
      std::iota(expected.begin(), expected.end(), 8 * (step % 6));  // 48 of 50 samples a pass
      EXPECT_EQ(seen, expected);
      if (degree == 1) micro_batches_of_two = micro_batches;
      EXPECT_EQ(micro_batches, micro_batches_of_two);
    }
  }
}

// Eleven samples on any number of ranks: each once, the rest padding that counts nowhere.
TEST(Loader, ABatchThatDoesNotDivideIsFilledWithPadding) {
  const auto source = std::make_shared<const Counting>(50, 10);
  for (const int64_t degree : {1, 2, 3, 4, 7, 11, 13}) {
    for (const bool balanced : {false, true}) {
      LoaderOptions options = layout(degree, 1, (11 + degree - 1) / degree);
      options.batch = 11;
      options.balance_units = balanced;
      Ids seen;
      int64_t labels = 0, real = 0;
      for (const auto& rank : all_ranks(source, options, 1)) {
        EXPECT_EQ(static_cast<int64_t>(rank.size()), options.micro_batches);
        for (const MicroBatch& batch : rank) {
          EXPECT_EQ(batch.input_ids.size(), 10u);
          labels += batch.unmasked_tokens;
          real += batch.real_tokens;
          if (batch.sample_ids[0] >= 0) {
            seen.push_back(batch.sample_ids[0]);
            EXPECT_EQ(batch.real_tokens, 10);
          } else {
            EXPECT_EQ(batch.real_tokens, 0);
            EXPECT_EQ(batch.unmasked_tokens, 0);
            EXPECT_EQ(batch.padded, std::vector<uint8_t>(10, 1));
          }
        }
      }
      std::ranges::sort(seen);
      Ids expected(11);
      std::iota(expected.begin(), expected.end(), 11);
      EXPECT_EQ(seen, expected) << degree;
      EXPECT_EQ(labels, 110) << degree;
      EXPECT_EQ(real, 110) << degree;
      EXPECT_EQ(Loader(source, options).step_samples(1), expected);
    }
  }
}

TEST(Loader, WithoutDropRemainderPassesFollowOnEachOther) {
  LoaderOptions options = layout(1, 8, 1);
  options.drop_remainder = false;
  const Loader loader(std::make_shared<const Counting>(20, 4), options);
  EXPECT_EQ(loader.step_samples(2), (Ids{16, 17, 18, 19, 0, 1, 2, 3}));
  EXPECT_EQ(loader.step_samples(5), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Loader, ShuffleIsAPermutationThatTheSeedDecides) {
  const auto source = std::make_shared<const Counting>(40, 4);
  LoaderOptions options = layout(1, 8, 1);
  options.shuffle = true;
  const Loader loader(source, options);
  std::multiset<int64_t> seen;
  for (int64_t step = 0; step < 5; ++step) {
    for (const int64_t sample : loader.step_samples(step)) seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 40u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 40u);
  EXPECT_NE(loader.step_samples(0), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Loader(source, options).step_samples(3), loader.step_samples(3));
  options.seed = 5;
  EXPECT_NE(Loader(source, options).step_samples(3), loader.step_samples(3));
}

// Every token keeps the label, mask, position and next token that it has in the whole row.
TEST(Loader, ContextParallelRanksHoldSlicesOfTheWholeRow) {
  const auto source = std::make_shared<const Counting>(8, 16);
  LoaderOptions options = layout(1, 2, 2);
  options.columns.reset_position_ids = true;
  options.columns.packed = true;
  options.columns.eod_mask_loss = true;
  options.next_tokens = true;
  const auto whole = Loader(source, options).load(0);
  // Degree, neighbours that share a part (ulysses and hybrid).
  const std::vector<std::pair<int64_t, int64_t>> grids{{2, 1}, {4, 1}, {2, 2}, {4, 2}, {4, 4}};
  for (const auto& [cp, inner] : grids) {
    for (const TokenBalance balance :
         {TokenBalance::kContiguous, TokenBalance::kHeadTail, TokenBalance::kByWork}) {
      options.cp_degree = cp;
      options.cp_inner = inner;
      options.balance = balance;
      int64_t unmasked = 0;
      int64_t next_unmasked = 0;
      std::set<std::pair<int64_t, int64_t>> places;
      for (options.cp_rank = 0; options.cp_rank < cp; ++options.cp_rank) {
        const auto part = Loader(source, options).load(0);
        for (size_t j = 0; j < part.size(); ++j) {
          const MicroBatch& batch = part[j];
          EXPECT_EQ(batch.tokens, 2 * 16 / cp);
          EXPECT_EQ(batch.sample_ids, whole[j].sample_ids);
          EXPECT_EQ(batch.document_ends, whole[j].document_ends);
          unmasked += batch.unmasked_tokens;
          next_unmasked += batch.next_unmasked_tokens;
          size_t token = 0;
          for (int64_t row = 0; row < 2; ++row) {
            for (const Range& piece :
                 batch.pieces[static_cast<size_t>(row)][static_cast<size_t>(options.cp_rank)]) {
              for (int64_t place = piece.begin; place < piece.end; ++place, ++token) {
                const auto at = static_cast<size_t>(16 * row + place);
                EXPECT_EQ(batch.row_of_token[token], row);
                EXPECT_EQ(batch.place_in_row[token], place);
                EXPECT_EQ(batch.input_ids[token], whole[j].input_ids[at]);
                EXPECT_EQ(batch.labels[token], whole[j].labels[at]);
                EXPECT_EQ(batch.position_ids[token], whole[j].position_ids[at]);
                EXPECT_EQ(batch.loss_mask[token], whole[j].loss_mask[at]);
                EXPECT_EQ(batch.next_ids[token], whole[j].next_ids[at]);
                EXPECT_EQ(batch.next_labels[token], whole[j].next_labels[at]);
                EXPECT_EQ(batch.next_position_ids[token], whole[j].next_position_ids[at]);
                EXPECT_EQ(batch.next_loss_mask[token], whole[j].next_loss_mask[at]);
                places.insert({static_cast<int64_t>(j) * 2 + row, place});
              }
            }
          }
          EXPECT_EQ(token, batch.input_ids.size());
        }
      }
      EXPECT_EQ(places.size(), 64u);
      EXPECT_EQ(unmasked, whole[0].unmasked_tokens + whole[1].unmasked_tokens);
      EXPECT_EQ(next_unmasked, whole[0].next_unmasked_tokens + whole[1].next_unmasked_tokens);
    }
  }
}

// Balance is between the rows of the grid; neighbours hold equal runs of their row's part.
TEST(Loader, NeighboursShareAPartInEqualRuns) {
  LoaderOptions options = layout(1, 1, 1);
  options.cp_degree = 4;
  options.cp_inner = 2;
  options.balance = TokenBalance::kHeadTail;
  const auto source = std::make_shared<const Counting>(2, 16);
  const std::vector<Pieces> expected{{{0, 4}}, {{12, 16}}, {{4, 8}}, {{8, 12}}};
  for (options.cp_rank = 0; options.cp_rank < 4; ++options.cp_rank) {
    const auto batch = Loader(source, options).load(0).front();
    EXPECT_EQ(batch.pieces.front(), expected);
    Ids places(4);
    std::iota(places.begin(), places.end(),
              expected[static_cast<size_t>(options.cp_rank)].front().begin);
    EXPECT_EQ(batch.place_in_row, places);
  }
  options.cp_inner = 4;  // nothing to balance
  options.cp_rank = 2;
  EXPECT_EQ(Loader(source, options).load(0).front().place_in_row, (Ids{8, 9, 10, 11}));
  options.cp_inner = 3;
  EXPECT_THROW(Loader(source, options), InternalError);
}

TEST(Loader, LabelsCrossTheCut) {
  LoaderOptions options = layout(1, 1, 1);
  options.columns.eod = -1;
  options.cp_degree = 4;
  options.cp_rank = 0;
  const auto batch = Loader(std::make_shared<const Counting>(2, 64), options).load(0).front();
  EXPECT_EQ(batch.place_in_row.back(), 15);
  EXPECT_EQ(batch.labels.back(), 16);
  EXPECT_EQ(batch.unmasked_tokens, 16);
}

TEST(Loader, NextTokensAreShiftedOnceMore) {
  LoaderOptions options = layout(1, 1, 1);
  options.columns.eod = 7;
  options.columns.eod_mask_loss = true;
  options.next_tokens = true;
  const auto batch = Loader(std::make_shared<const Counting>(1, 6), options).load(0).front();
  EXPECT_EQ(batch.input_ids, (Ids{0, 1, 2, 3, 7, 5}));
  EXPECT_EQ(batch.labels, (Ids{1, 2, 3, 7, 5, 6}));
  EXPECT_EQ(batch.next_ids, (Ids{1, 2, 3, 7, 5, 0}));
  EXPECT_EQ(batch.next_labels, (Ids{2, 3, 7, 5, 6, 0}));
  EXPECT_EQ(batch.next_position_ids, (Ids{1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(batch.loss_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 1}));
  EXPECT_EQ(batch.next_loss_mask, (std::vector<uint8_t>{1, 1, 1, 0, 1, 0}));
  EXPECT_EQ(batch.unmasked_tokens, 5);
  EXPECT_EQ(batch.next_unmasked_tokens, 4);
}

TEST(Loader, PaddingIsFlagged) {
  const Loader loader(std::make_shared<const Counting>(2, 6, 3), layout(1, 1, 1));
  EXPECT_TRUE(loader.load(0).front().padded.empty());
  const auto batch = loader.load(1).front();
  EXPECT_EQ(batch.padded, (std::vector<uint8_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(batch.unmasked_tokens, 3);
}

TEST(Loader, BadSizesAreRefused) {
  const auto source = std::make_shared<const Counting>(7, 63);
  EXPECT_THAT(message_of<ConfigError>([&] { Loader(source, layout(1, 8, 1)); }),
              HasSubstr("the data hold 7 samples, one step needs 8"));
  LoaderOptions options = layout(1, 1, 1);
  options.cp_degree = 2;
  EXPECT_THAT(message_of<ConfigError>([&] { Loader(source, options); }),
              HasSubstr("nearest 62 and 64"));
}

TEST(DataSupply, IsKnownBeforeTheFirstStep) {
  const auto data_supply = [](int64_t available, int64_t batch, int64_t steps, bool drop) {
    return tessera::data_supply(available, BatchGrowth::fixed(batch), steps, drop);
  };
  const DataSupply supply = data_supply(20, 8, 5, true);
  EXPECT_EQ(supply.steps_available, 2.5);
  EXPECT_EQ(supply.passes, 3);
  EXPECT_THAT(supply.warning(), HasSubstr("data for 2.5 steps, 5 asked"));
  EXPECT_THAT(supply.warning(), HasSubstr("3 passes"));
  EXPECT_THAT(supply.warning(), HasSubstr("leaves out the last 4"));
  EXPECT_EQ(data_supply(20, 8, 5, false).passes, 2);
  EXPECT_EQ(data_supply(20, 8, 2, true).passes, 1);
  EXPECT_EQ(data_supply(20, 8, 2, true).warning(), "");
  EXPECT_EQ(data_supply(16, 8, 2, false).passes, 1);
  EXPECT_EQ(data_supply(16, 8, 3, true).passes, 2);
  EXPECT_EQ(data_supply(16, 8, 0, true).passes, 1);
  EXPECT_THROW(data_supply(7, 8, 5, true), ConfigError);
}

TEST(StepPrefetcher, HandsOutWhatTheLoaderLoads) {
  const auto loader =
      std::make_shared<const Loader>(std::make_shared<const Counting>(20, 6), layout(1, 2, 2));
  const UpdateSequence updates(BatchGrowth::fixed(loader->options().effective_batch()), 20, true);
  StepPrefetcher steps(loader, updates, updates.at(3), 9);
  for (int64_t step = 3; step < 9; ++step) {
    const auto batches = steps.next();
    const auto expected = loader->load(step);
    ASSERT_EQ(batches.size(), expected.size());
    for (size_t j = 0; j < batches.size(); ++j) {
      EXPECT_EQ(batches[j].input_ids, expected[j].input_ids);
      EXPECT_EQ(batches[j].sample_ids, expected[j].sample_ids);
    }
  }
  EXPECT_THROW(steps.next(), InternalError);
  StepPrefetcher unused(loader, updates, updates.at(0), 5);  // ends cleanly with a step in flight
}

TEST(StepPrefetcher, PassesOnTheReadersError) {
  const test::TempDir folder;
  DatasetOptions options;
  options.prefixes = {
      test::write_token_file(folder / "f", std::vector<std::vector<int32_t>>(4, {1, 2, 900, 4}))};
  options.seq_length = 4;
  options.vocab_size = 100;
  const auto loader = std::make_shared<const Loader>(open_dataset(options), layout(1, 1, 1));
  const UpdateSequence updates(BatchGrowth::fixed(1), loader->options().effective_batch(), true);
  StepPrefetcher steps(loader, updates, {0, 0, 0, 1}, 2);
  EXPECT_THROW(steps.next(), ConfigError);
}

}  // namespace
}  // namespace tessera
