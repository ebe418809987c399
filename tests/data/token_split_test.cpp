#include "tessera/data/token_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tessera/base/error.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using Ends = std::vector<int64_t>;

constexpr TokenBalance kAll[] = {TokenBalance::kContiguous, TokenBalance::kHeadTail,
                                 TokenBalance::kByWork};

std::vector<int64_t> work_of(const std::vector<Pieces>& ranks, const Ends& ends) {
  std::vector<int64_t> work;
  for (const Pieces& pieces : ranks) work.push_back(attention_work(pieces, ends));
  return work;
}

int64_t most(const std::vector<int64_t>& work) {
  return *std::max_element(work.begin(), work.end());
}

// Every place exactly once, s / C per rank, pieces ascending and not touching.
void expect_partition(const std::vector<Pieces>& ranks, int64_t s) {
  std::vector<int> owners(static_cast<size_t>(s), 0);
  for (const Pieces& pieces : ranks) {
    int64_t tokens = 0;
    int64_t last = -1;
    for (const Range& piece : pieces) {
      EXPECT_LT(piece.begin, piece.end);
      EXPECT_GT(piece.begin, last);
      last = piece.end;
      tokens += piece.size();
      for (int64_t i = piece.begin; i < piece.end; ++i) ++owners[static_cast<size_t>(i)];
    }
    EXPECT_EQ(tokens, s / static_cast<int64_t>(ranks.size()));
  }
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), s);
}

TEST(AttentionWork, CountsTheKeysThatEachQuerySees) {
  EXPECT_EQ(attention_work({{0, 16}}, Ends{16}), 136);
  EXPECT_EQ(attention_work({{0, 16}}, Ends{4, 16}), 10 + 78);
  EXPECT_EQ(attention_work({{3, 6}}, Ends{4, 16}), 4 + 1 + 2);
  EXPECT_EQ(attention_work({{0, 1}, {15, 16}}, Ends{4, 16}), 1 + 12);
  EXPECT_EQ(attention_work({}, Ends{16}), 0);
}

TEST(TokenSplit, OneRankHasEverything) {
  for (const TokenBalance balance : kAll) {
    EXPECT_EQ(split_row(6, Ends{2, 6}, 1, balance), (std::vector<Pieces>{{{0, 6}}}));
  }
}

TEST(TokenSplit, ContiguousAndHeadTail) {
  EXPECT_EQ(split_row(12, Ends{12}, 3, TokenBalance::kContiguous),
            (std::vector<Pieces>{{{0, 4}}, {{4, 8}}, {{8, 12}}}));
  EXPECT_EQ(split_row(12, Ends{12}, 3, TokenBalance::kHeadTail),
            (std::vector<Pieces>{{{0, 2}, {10, 12}}, {{2, 4}, {8, 10}}, {{4, 8}}}));
}

TEST(TokenSplit, OneCausalDocumentIsEqualWorkHeadTailAndByWork) {
  for (const int64_t cp : {2, 4, 8}) {
    for (const TokenBalance balance : {TokenBalance::kHeadTail, TokenBalance::kByWork}) {
      const auto work = work_of(split_row(64, Ends{64}, cp, balance), Ends{64});
      EXPECT_EQ(work, std::vector<int64_t>(static_cast<size_t>(cp), 64 * 65 / 2 / cp));
    }
  }
}

TEST(TokenSplit, PackedDocumentsFourAndTwelveOverTwoRanks) {
  const Ends ends = {4, 16};
  EXPECT_EQ(work_of(split_row(16, ends, 2, TokenBalance::kContiguous), ends), (Ends{20, 68}));
  EXPECT_EQ(work_of(split_row(16, ends, 2, TokenBalance::kHeadTail), ends), (Ends{52, 36}));
  EXPECT_EQ(work_of(split_row(16, ends, 2, TokenBalance::kByWork), ends), (Ends{44, 44}));
}

TEST(TokenSplit, ByWorkIsNearlyEqualInFewPiecesAndNeverWorseThanHeadTail) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t cp = std::vector<int64_t>{2, 3, 4, 8}[random() % 4];
    const int64_t s = cp * static_cast<int64_t>(1 + random() % 200);
    Ends ends;
    const auto longest = static_cast<int64_t>(1 + random() % static_cast<uint32_t>(s));
    for (int64_t at = 0; at < s; ends.push_back(at)) {
      at = std::min(s, at + 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(longest)));
    }
    const auto ranks = split_row(s, ends, cp, TokenBalance::kByWork);
    expect_partition(ranks, s);
    size_t pieces = 0;
    for (const Pieces& own : ranks) pieces += own.size();
    EXPECT_LE(pieces, static_cast<size_t>(2 * cp - 1));

    const auto work = work_of(ranks, ends);
    const int64_t total = attention_work({{0, s}}, ends);
    EXPECT_EQ(std::accumulate(work.begin(), work.end(), int64_t{0}), total);
    EXPECT_LE(most(work), total / cp + longest + 1);
    if (s % (2 * cp) == 0) {
      EXPECT_LE(most(work), most(work_of(split_row(s, ends, cp, TokenBalance::kHeadTail), ends)));
    }
    EXPECT_EQ(ranks, split_row(s, ends, cp, TokenBalance::kByWork));
  }
}

TEST(TokenSplit, SequencesAsShortAsTheDegree) {
  for (const TokenBalance balance : {TokenBalance::kContiguous, TokenBalance::kByWork}) {
    expect_partition(split_row(4, Ends{4}, 4, balance), 4);
  }
  expect_partition(split_row(8, Ends{8}, 4, TokenBalance::kHeadTail), 8);
}

TEST(SplitPieces, EqualRunsInOrder) {
  const Pieces pieces{{0, 3}, {10, 15}};
  EXPECT_EQ(split_pieces(pieces, 1), (std::vector<Pieces>{pieces}));
  EXPECT_EQ(split_pieces(pieces, 2), (std::vector<Pieces>{{{0, 3}, {10, 11}}, {{11, 15}}}));
  EXPECT_EQ(split_pieces(pieces, 4),
            (std::vector<Pieces>{{{0, 2}}, {{2, 3}, {10, 11}}, {{11, 13}}, {{13, 15}}}));
  EXPECT_EQ(split_pieces(pieces, 8).back(), (Pieces{{14, 15}}));
  EXPECT_EQ(split_pieces({}, 2), std::vector<Pieces>(2));
}

TEST(SplitPieces, RunsPartitionWhatTheyAreGiven) {
  for (const TokenBalance balance : kAll) {
    for (const int64_t inner : {1, 2, 4}) {
      std::vector<Pieces> ranks;
      for (const Pieces& part : split_row(48, Ends{5, 6, 30, 48}, 3, balance)) {
        for (Pieces& run : split_pieces(part, inner)) ranks.push_back(std::move(run));
      }
      expect_partition(ranks, 48);
    }
  }
}

TEST(SplitPieces, UnequalRunsAreRefused) {
  EXPECT_THAT(test::message_of<ConfigError>([] {
                split_pieces({{0, 3}, {10, 14}}, 2);
              }),
              HasSubstr("7 places cannot be cut into 2 equal runs"));
}

TEST(TokenSplit, LengthsThatDoNotDivideAreRefusedWithTheNearest) {
  EXPECT_THAT(
      test::message_of<ConfigError>([] { split_row(63, Ends{63}, 2, TokenBalance::kContiguous); }),
      HasSubstr("multiple of 2, nearest 62 and 64"));
  EXPECT_THAT(
      test::message_of<ConfigError>([] { split_row(60, Ends{60}, 4, TokenBalance::kHeadTail); }),
      HasSubstr("head-tail: it should be a multiple of 8, nearest 56 and 64"));
  EXPECT_NO_THROW(split_row(60, Ends{60}, 4, TokenBalance::kByWork));
  EXPECT_THAT(
      test::message_of<ConfigError>([] { split_row(3, Ends{3}, 4, TokenBalance::kByWork); }),
      HasSubstr("nearest 4"));
}

}  // namespace
}  // namespace tessera
