#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tessera/base/error.h"
#include "tessera/data/blended_dataset.h"
#include "tessera/data/gpt_dataset.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SplitShare, NumbersAreNormalisedAndPadded) {
  const auto train = split_share({90, 5, 5}, DatasetPhase::kTrain);
  const auto valid = split_share({90, 5, 5}, DatasetPhase::kValid);
  ASSERT_TRUE(train && valid);
  EXPECT_EQ(train->begin, 0.0);
  EXPECT_EQ(train->end, 0.9);
  EXPECT_EQ(valid->begin, 0.9);
  EXPECT_EQ(valid->end, 0.9 + 0.05);
  EXPECT_EQ(split_share({949, 50, 1}, DatasetPhase::kTrain)->end, 0.949);
  EXPECT_EQ(split_share({1}, DatasetPhase::kTrain)->end, 1.0);
  EXPECT_FALSE(split_share({1}, DatasetPhase::kValid));
  EXPECT_FALSE(split_share({1, 0, 0}, DatasetPhase::kTest));
}

// numpy.array(w) / numpy.sum(numpy.array(w)) by numpy 2.4.6: the order of additions shows in the
// last bit from eight weights on.
TEST(Blend, SumsWeightsInNumpysOrder) {
  const auto sum_by = [](int64_t count) {
    std::vector<double> weights;
    for (int64_t i = 0; i < count; ++i) weights.push_back(0.1 * static_cast<double>(i % 7 + 1));
    return std::pair(weights, normalized(weights));
  };
  const std::pair<int64_t, double> sums[] = {
      {3, 0x1.3333333333334p-1}, {13, 0x1.399999999999ap+2}, {300, 0x1.deccccccccccep+6}};
  for (const auto& [count, sum] : sums) {
    const auto [weights, shares] = sum_by(count);
    for (size_t i = 0; i < shares.size(); ++i) ASSERT_EQ(shares[i], weights[i] / sum) << count;
  }
}

TEST(Blend, TheFurthestBehindIsNextAndTheFirstOfEquals) {
  std::vector<BlendEntry> order(6);
  fill_blend_order(order, std::vector<double>{0.5, 0.25, 0.25}, std::vector<int64_t>{9, 9, 9});
  std::vector<int> datasets;
  for (const BlendEntry& entry : order) datasets.push_back(static_cast<int>(entry.dataset));
  EXPECT_THAT(datasets, ElementsAre(0, 1, 2, 0, 0, 1));
}

TEST(Blend, ADatasetThatIsUsedUpIsPassedOver) {
  std::vector<BlendEntry> order(7);
  fill_blend_order(order, std::vector<double>{0.9, 0.1}, std::vector<int64_t>{2, 5});
  std::vector<int> datasets;
  std::vector<int> samples;
  for (const BlendEntry& entry : order) {
    datasets.push_back(static_cast<int>(entry.dataset));
    samples.push_back(static_cast<int>(entry.sample));
  }
  EXPECT_THAT(datasets, ElementsAre(0, 1, 0, 1, 1, 1, 1));
  EXPECT_THAT(samples, ElementsAre(0, 0, 1, 1, 2, 3, 4));
}

class OpenDataset : public ::testing::Test {
 protected:
  OpenDataset() {
    options_.prefixes = {test::write_token_file(
                             folder_ / "a", test::counting_documents(std::vector<int64_t>(20, 9))),
                         test::write_token_file(
                             folder_ / "b", test::counting_documents(std::vector<int64_t>(10, 9)))};
    options_.seq_length = 8;
  }

  test::TempDir folder_;
  DatasetOptions options_;
};

TEST_F(OpenDataset, WithoutWeightsEveryFileGivesOneEpoch) {
  const auto source = open_dataset(options_);
  EXPECT_EQ(source->size(), 22 + 11);  // (180 - 1) / 8, (90 - 1) / 8
  EXPECT_EQ(count_samples(options_), 33);
  const auto& blend = dynamic_cast<const BlendedDataset&>(*source);
  int64_t first = 0;
  for (int64_t i = 0; i < blend.size(); ++i) first += blend.entry(i).dataset == 0;
  EXPECT_EQ(first, 22);
  options_.samples = 10;
  EXPECT_EQ(open_dataset(options_)->size(), 10);
  options_.samples = 1000;
  EXPECT_EQ(open_dataset(options_)->size(), 33);
  EXPECT_EQ(count_samples(options_), 33);
}

TEST_F(OpenDataset, WithWeightsEveryFileIsAskedForItsShareAndALittle) {
  options_.weights = {1.0, 1.0};
  EXPECT_THAT(message_of<ConfigError>([&] { open_dataset(options_); }),
              HasSubstr("need the number of samples"));
  options_.samples = 1000;
  const auto source = open_dataset(options_);
  EXPECT_EQ(source->size(), 1000);
  const auto& blend = dynamic_cast<const BlendedDataset&>(*source);
  for (int64_t i = 0; i < 2; ++i) {
    const auto& file = dynamic_cast<const GptDataset&>(blend.dataset(i));
    const int64_t epoch = i == 0 ? 180 : 90;
    EXPECT_EQ(file.index().shape().epochs, (503 * 8 + 1 + epoch - 1) / epoch);
  }
}

TEST_F(OpenDataset, OneFileIsUsedDirectlyOrWithAWeightThroughTheBlend) {
  options_.prefixes.resize(1);
  options_.samples = 30;
  EXPECT_EQ(open_dataset(options_)->size(), 44);  // two whole epochs
  EXPECT_EQ(count_samples(options_), 44);
  options_.weights = {3.0};
  EXPECT_EQ(open_dataset(options_)->size(), 30);
  EXPECT_EQ(count_samples(options_), 30);
}

TEST_F(OpenDataset, SplitsRoundHalvesToEven) {
  options_.prefixes = {
      test::write_token_file(folder_ / "c", test::counting_documents(std::vector<int64_t>(5, 9)))};
  options_.split = {{1, 1}};
  const auto train = open_dataset(options_);  // round(2.5) = 2
  EXPECT_EQ(dynamic_cast<const GptDataset&>(*train).index().entries(), 2);
  options_.phase = DatasetPhase::kValid;
  EXPECT_EQ(dynamic_cast<const GptDataset&>(*open_dataset(options_)).index().entries(), 3);
}

TEST_F(OpenDataset, APhaseWithoutDataIsRefused) {
  options_.split = {{99, 1, 0}};
  options_.phase = DatasetPhase::kTest;
  EXPECT_THAT(message_of<ConfigError>([&] { open_dataset(options_); }),
              HasSubstr("the split gives test nothing"));
  options_.phase = DatasetPhase::kValid;
  EXPECT_THAT(message_of<ConfigError>([&] { open_dataset(options_); }),
              HasSubstr("20 sequences, of which valid gets none"));
}

TEST_F(OpenDataset, ThreadsChangeNothing) {
  options_.prefixes.push_back(options_.prefixes[0]);
  options_.threads = 4;
  const auto source = open_dataset(options_);
  options_.threads = 1;
  const auto same = open_dataset(options_);
  ASSERT_EQ(source->size(), same->size());
  std::vector<int64_t> a(9);
  std::vector<int64_t> b(9);
  for (int64_t i = 0; i < source->size(); ++i) {
    source->read(i, a);
    same->read(i, b);
    EXPECT_EQ(a, b);
  }
  options_.prefixes[1] = folder_ / "missing";
  options_.threads = 3;
  EXPECT_THROW(open_dataset(options_), ConfigError);
}

}  // namespace
}  // namespace tessera
