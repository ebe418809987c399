// Samples and indices equal to megatron-core's, for every reference run.

#include <gtest/gtest.h>

#include <numeric>

#include "tessera/data/blended_dataset.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/loader.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

struct Case {
  std::string name;
  int64_t samples = 80;
  bool packed = false;
  int64_t local_batch_size = 8;
};

DatasetOptions dataset_options(const Case& run) {
  DatasetOptions options;
  options.prefixes = {(test::case_path(run.name) / "data" / "train").string()};
  options.split = {{1, 0, 0}};
  options.samples = run.samples;
  options.seq_length = 64;
  options.vocab_size = 256;
  return options;
}

DatasetOptions blend_options(DatasetPhase phase) {
  DatasetOptions options;
  const auto data = test::case_path("blend") / "data";
  options.prefixes = {(data / "a").string(), (data / "b").string(), (data / "c").string()};
  options.weights = {0.5, 0.3, 0.2};
  options.split = {{90, 5, 5}};
  options.phase = phase;
  options.samples = phase == DatasetPhase::kTrain ? 200 : 10;
  options.seq_length = 64;
  options.vocab_size = 512;
  return options;
}

// Rows of one column of a step, put together from its micro-batches.
template <typename Column>
Rows rows_of(const std::vector<MicroBatch>& step, Column column) {
  Rows rows;
  for (const MicroBatch& batch : step) {
    const auto& values = batch.*column;
    for (int64_t row = 0; row < batch.rows; ++row) {
      rows.emplace_back(values.begin() + row * batch.seq_length,
                        values.begin() + (row + 1) * batch.seq_length);
    }
  }
  return rows;
}

void expect_steps_equal(const Loader& loader, const nlohmann::json& expected, bool packed) {
  for (size_t step = 0; step < expected.size(); ++step) {
    SCOPED_TRACE(step);
    const nlohmann::json& record = expected[step];
    const auto batches = loader.load(static_cast<int64_t>(step));
    EXPECT_EQ(rows_of(batches, &MicroBatch::input_ids), record["input_ids"].get<Rows>());
    EXPECT_EQ(rows_of(batches, &MicroBatch::labels), record["labels"].get<Rows>());
    EXPECT_EQ(rows_of(batches, &MicroBatch::loss_mask), record["loss_mask"].get<Rows>());
    EXPECT_EQ(rows_of(batches, &MicroBatch::position_ids), record["position_ids"].get<Rows>());
    Rows ends;
    Rows cumulative;
    for (const MicroBatch& batch : batches) {
      cumulative.emplace_back();
      for (int64_t row = 0; row < batch.rows; ++row) {
        ends.push_back(batch.document_ends[static_cast<size_t>(row)]);
        for (const int64_t end : ends.back()) cumulative.back().push_back(64 * row + end);
      }
    }
    if (packed) {
      EXPECT_EQ(ends, record["document_ends"].get<Rows>());
      EXPECT_EQ(cumulative, record["cumulative_document_ends"].get<Rows>());
    } else {
      EXPECT_EQ(ends, Rows(8, {64}));
    }
  }
}

class Cases : public ::testing::TestWithParam<Case> {};

TEST_P(Cases, SamplesAndTokenCountsAreEqual) {
  const Case& run = GetParam();
  LoaderOptions options;
  options.local_batch_size = run.local_batch_size;
  options.micro_batches = 8 / run.local_batch_size;
  options.columns.eod = 2;
  options.columns.pad = 1;
  options.columns.reset_position_ids = run.packed;
  options.columns.packed = run.packed;
  options.columns.eod_mask_loss = run.packed;
  const DatasetOptions data = dataset_options(run);
  const auto source = open_dataset(data);
  EXPECT_EQ(count_samples(data), source->size());
  const Loader loader(source, options);
  const auto path = test::case_path(run.name);
  expect_steps_equal(loader, test::read_json(path / "expected_samples.json"), run.packed);

  const auto updates = test::read_json_lines(path / "expected.jsonl");
  for (size_t step = 0; step < updates.size(); ++step) {
    int64_t tokens = 0;
    for (const MicroBatch& batch : loader.load(static_cast<int64_t>(step))) {
      tokens += batch.unmasked_tokens;
    }
    EXPECT_EQ(tokens, updates[step]["tokens"].get<int64_t>()) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(References, Cases,
                         ::testing::Values(Case{"llama_sgd64"},
                                           Case{"llama_adamw64", 160, false, 2},
                                           Case{"llama_adamw32", 160, false, 2},
                                           Case{"qwen3_tied64"}, Case{"qwen3_eod64", 80, true, 2}),
                         [](const auto& info) { return info.param.name; });

TEST(Blend, SamplesAreEqual) {
  LoaderOptions options;
  options.local_batch_size = 8;
  options.columns.eod = 2;
  options.columns.pad = 1;
  const DatasetOptions data = blend_options(DatasetPhase::kTrain);
  const Loader loader(open_dataset(data), options);
  EXPECT_EQ(count_samples(data), 200);
  const auto path = test::case_path("blend") / "expected_samples.json";
  expect_steps_equal(loader, test::read_json(path), false);
}

TEST(Blend, IndicesAreEqualInEveryPhase) {
  const auto expected = test::read_json(test::case_path("blend") / "expected_indices.json");
  for (const DatasetPhase phase :
       {DatasetPhase::kTrain, DatasetPhase::kValid, DatasetPhase::kTest}) {
    constexpr const char* kNames[] = {"train", "valid", "test"};
    const std::string name = kNames[static_cast<int>(phase)];
    const auto source = open_dataset(blend_options(phase));
    const auto& blend = dynamic_cast<const BlendedDataset&>(*source);
    EXPECT_EQ(blend.size(), phase == DatasetPhase::kTrain ? 200 : 10);
    std::vector<int64_t> datasets;
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < std::min<int64_t>(64, blend.size()); ++i) {
      datasets.push_back(static_cast<int64_t>(blend.entry(i).dataset));
      samples.push_back(static_cast<int64_t>(blend.entry(i).sample));
    }
    EXPECT_EQ(datasets, expected[name + "_dataset_index"].get<std::vector<int64_t>>());
    EXPECT_EQ(samples, expected[name + "_dataset_sample_index"].get<std::vector<int64_t>>());
  }
}

TEST(Blend, DocumentSampleAndShuffleIndexAreEqual) {
  const auto expected = test::read_json(test::case_path("blend") / "expected_indices.json");
  const test::TempDir cache;
  for (const bool cached : {false, true, true}) {  // in memory, stored, mapped
    DatasetOptions options = blend_options(DatasetPhase::kTrain);
    if (cached) options.cache_dir = cache.path().string();
    const auto source = open_dataset(options);
    const auto& blend = dynamic_cast<const BlendedDataset&>(*source);
    for (int64_t number = 0; number < 3; ++number) {
      const auto& file = dynamic_cast<const GptDataset&>(blend.dataset(number));
      const auto& record = expected[std::string("train_") + "abc"[number]];
      const GptIndex& index = file.index();
      EXPECT_EQ(index.shape().tokens_per_epoch, record["tokens_per_epoch"].get<int64_t>());
      EXPECT_EQ(index.shape().epochs, record["epochs"].get<int64_t>());
      std::vector<int64_t> documents;
      for (int64_t i = 0; i < index.entries(); ++i) documents.push_back(index.sequence(i));
      EXPECT_EQ(documents, record["document_index"].get<std::vector<int64_t>>());
      Rows places;
      std::vector<int64_t> shuffle;
      for (int64_t i = 0; i <= file.size(); ++i) {
        const auto place = index.place(file.file(), i);
        places.push_back({place.entry, place.offset});
        if (i < file.size()) shuffle.push_back(index.shuffled(i));
      }
      EXPECT_EQ(places, record["sample_index"].get<Rows>());
      EXPECT_EQ(shuffle, record["shuffle_index"].get<std::vector<int64_t>>());
    }
  }
}

}  // namespace
}  // namespace tessera
