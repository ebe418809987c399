#include "tessera/data/gpt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/base/error.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::counting_documents;
using test::message_of;
using test::TempDir;
using test::write_token_file;
using ::testing::HasSubstr;

GptIndexSpec spec_for(int64_t sequences, int64_t seq_length, std::optional<int64_t> samples = {}) {
  GptIndexSpec spec;
  spec.last_sequence = sequences;
  spec.seq_length = seq_length;
  spec.samples = samples;
  return spec;
}

GptDataset open(const std::string& prefix, const GptIndexSpec& spec, int64_t vocab_size = 0) {
  return {std::make_shared<const IndexedDataset>(prefix), spec, vocab_size, std::nullopt};
}

std::vector<int64_t> read(const SampleSource& samples, int64_t index) {
  std::vector<int64_t> tokens(static_cast<size_t>(samples.sample_length()), -7);
  tokens.resize(static_cast<size_t>(samples.read(index, tokens)));
  return tokens;
}

TEST(GptIndexShape, EpochsCoverWhatIsAskedWithTheExtraToken) {
  // 100 tokens an epoch, samples of 10 + 1.
  EXPECT_EQ(shape_of_index(spec_for(5, 10), 100, "f").samples, 9);
  EXPECT_EQ(shape_of_index(spec_for(5, 10, 9), 100, "f").epochs, 1);
  EXPECT_EQ(shape_of_index(spec_for(5, 10, 10), 100, "f").epochs, 2);
  EXPECT_EQ(shape_of_index(spec_for(5, 10, 10), 100, "f").samples, 19);
  EXPECT_EQ(shape_of_index(spec_for(5, 10, 0), 100, "f").epochs, 1);
  GptIndexSpec without = spec_for(5, 10, 10);
  without.extra_token = false;
  EXPECT_EQ(shape_of_index(without, 100, "f").epochs, 1);
  EXPECT_EQ(shape_of_index(without, 100, "f").samples, 10);
}

TEST(GptIndexShape, TheLastEpochIsSeparateBelowFourFifths) {
  // 9 samples lie before the last epoch of two; int(0.8 * 9) = 7.
  const auto with = [](int64_t samples) {
    return shape_of_index(spec_for(5, 10, samples), 100, "f");
  };
  EXPECT_TRUE(with(10).separate_last_epoch);
  EXPECT_TRUE(with(15).separate_last_epoch);
  EXPECT_EQ(with(15).samples_before_last, 9);
  EXPECT_FALSE(with(16).separate_last_epoch);
  EXPECT_EQ(with(16).samples_before_last, 19);
  EXPECT_FALSE(with(9).separate_last_epoch);
}

TEST(GptIndexShape, TooLittleOrTooMuchIsRefused) {
  EXPECT_THAT(message_of<ConfigError>([] { shape_of_index(spec_for(5, 10), 0, "f"); }),
              HasSubstr("f: no tokens"));
  EXPECT_THAT(message_of<ConfigError>([] { shape_of_index(spec_for(5, 10), 10, "f"); }),
              HasSubstr("one epoch has 10 tokens, one sample needs 11"));
  EXPECT_THAT(message_of<ConfigError>(
                  [] { shape_of_index(spec_for(1000000, 10, int64_t{1} << 40), 1000000, "f"); }),
              HasSubstr("epochs"));
  EXPECT_THROW(shape_of_index(spec_for(5, 10, int64_t{1} << 62), 100, "f"), ConfigError);
  EXPECT_THROW(shape_of_index(spec_for(5, 10, -1), 100, "f"), ConfigError);
}

TEST(GptDataset, SamplesTileTheShuffledSequences) {
  const TempDir folder;
  const std::string prefix =
      write_token_file(folder / "f", counting_documents({7, 0, 1, 30, 2, 23}));
  for (const bool extra : {true, false}) {
    for (const std::optional<int64_t> asked :
         {std::optional<int64_t>{}, std::optional<int64_t>{30}}) {
      GptIndexSpec spec = spec_for(6, 4, asked);
      spec.extra_token = extra;
      const GptDataset samples = open(prefix, spec);
      const GptIndex& index = samples.index();
      // The stream, by the definition.
      std::vector<int64_t> stream;
      for (int64_t entry = 0; entry < index.entries(); ++entry) {
        std::vector<int64_t> tokens(
            static_cast<size_t>(samples.file().length(index.sequence(entry))));
        samples.file().read(index.sequence(entry), 0, tokens);
        stream.insert(stream.end(), tokens.begin(), tokens.end());
      }
      EXPECT_EQ(static_cast<int64_t>(stream.size()), 63 * index.shape().epochs);
      std::set<int64_t> seen;
      for (int64_t i = 0; i < samples.size(); ++i) {
        const int64_t number = index.shuffled(i);
        const auto begin = stream.begin() + 4 * number;
        EXPECT_EQ(read(samples, i), std::vector<int64_t>(begin, begin + 4 + extra)) << i;
        seen.insert(number);
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), samples.size());
    }
  }
}

// No sample twice within an epoch, and each epoch its own permutation.
TEST(GptDataset, EveryEpochIsReadOnceAndInItsOwnOrder) {
  const TempDir folder;
  std::vector<int64_t> lengths(10, 8);
  const std::string prefix = write_token_file(folder / "f", counting_documents(lengths));
  GptIndexSpec spec = spec_for(10, 8, 30);  // 10 samples an epoch, 3 epochs
  spec.extra_token = false;
  const GptDataset samples = open(prefix, spec);
  ASSERT_EQ(samples.size(), 30);
  std::multiset<int64_t> all;
  for (int64_t i = 0; i < 30; ++i) all.insert(read(samples, i).front());
  for (int64_t document = 0; document < 10; ++document) EXPECT_EQ(all.count(8 * document), 3u);

  // The last epoch, when little of it is asked for, comes last and whole.
  spec.samples = 22;
  const GptDataset separate = open(prefix, spec);
  ASSERT_TRUE(separate.index().shape().separate_last_epoch);
  std::set<int64_t> last;
  for (int64_t i = 20; i < 30; ++i) last.insert(read(separate, i).front());
  EXPECT_EQ(last.size(), 10u);
}

TEST(GptDataset, APartialSampleIsKeptOnRequest) {
  const TempDir folder;
  const std::string prefix = write_token_file(folder / "f", counting_documents({10, 13}));
  GptIndexSpec spec = spec_for(2, 4);
  EXPECT_EQ(open(prefix, spec).size(), 5);
  spec.keep_partial = true;
  const GptDataset samples = open(prefix, spec);
  ASSERT_EQ(samples.size(), 6);
  int partial = 0;
  for (int64_t i = 0; i < 6; ++i) {
    const auto tokens = read(samples, i);
    if (samples.index().shuffled(i) == 5) {
      EXPECT_EQ(tokens.size(), 3u);  // 23 - 20
      ++partial;
    } else {
      EXPECT_EQ(tokens.size(), 5u);
    }
  }
  EXPECT_EQ(partial, 1);
}

TEST(GptDataset, AnIdOutsideTheVocabularyIsNamed) {
  const TempDir folder;
  std::vector<std::vector<int32_t>> documents(4, std::vector<int32_t>(20, 5));
  documents[2][13] = 512;
  const std::string prefix = write_token_file(folder / "f", documents);
  const GptDataset samples = open(prefix, spec_for(4, 8), 512);
  std::string message;
  for (int64_t i = 0; i < samples.size() && message.empty(); ++i) {
    message = message_of<ConfigError>([&] { read(samples, i); });
    if (!message.empty()) {
      EXPECT_THAT(message, HasSubstr("; sample " + std::to_string(i) + ")"));
    }
  }
  EXPECT_THAT(message,
              HasSubstr(prefix + ".bin: token id 512 in sequence 2 at offset 13 (byte 106"));
  EXPECT_THAT(message, HasSubstr("vocab_size is 512"));

  const GptDataset wider = open(prefix, spec_for(4, 8), 513);
  for (int64_t i = 0; i < wider.size(); ++i) EXPECT_NO_THROW(read(wider, i));

  // A negative id is outside every vocabulary.
  const std::string negative =
      write_token_file(folder / "n", {{1, -3, 2, 2, 2}}, TokenDtype::kInt32);
  EXPECT_THAT(message_of<ConfigError>([&] { read(open(negative, spec_for(1, 4), 100), 0); }),
              HasSubstr("token id -3 in sequence 0 at offset 1 (byte 4"));
}

}  // namespace
}  // namespace tessera
