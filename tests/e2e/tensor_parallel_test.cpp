// Tensor parallelism with sequence parallelism trains the same model as one rank.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/data/token_files.h"
#include "tests/e2e/layout.h"

namespace tessera::test {
namespace {

const std::string kLossParallel = "parallelism.enable_loss_parallel=true";

using Param = std::tuple<std::string, Layout>;
class TensorParallel : public testing::TestWithParam<Param> {};

TEST_P(TensorParallel, EqualsOneRank) {
  const auto& [name, layout] = GetParam();
  const Config config = load_case(name, layout.set, layout.ranks);
  const auto run = train(config, layout.ranks, config.training.steps);
  expect_same_training(*run, one_rank(name), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Dense, TensorParallel,
    testing::Combine(
        testing::ValuesIn(kDenseCases),
        testing::Values(
            Layout{"tp2", 2, {tp(2), local_batch(2), kLossParallel}},
            Layout{"tp4", 4, {tp(4), local_batch(2)}},  // two kv heads: copies
            Layout{"tp2_shard2_never", 4, {tp(2), local_batch(1), kLossParallel, policy("never")}},
            Layout{"tp2_replicate2_always", 4, {tp(2), local_batch(2), shard(1), policy("always")}},
            Layout{"tp4_shard2", 8, {tp(4), local_batch(1), kLossParallel, policy("always")}})),
    case_and_layout_name);

TEST(TensorParallelFloat32, EqualsOneRank) {
  const Config config = load_case("llama_adamw32", {tp(2), local_batch(1), kLossParallel}, 4);
  const auto run = train(config, 4, config.training.steps);
  expect_same_training(*run, one_rank("llama_adamw32"), 1e-5);
}

// Tokens of a vocabulary of 251: the reference runs use 256.
class FewTokens {
 public:
  FewTokens() {
    std::vector<std::vector<int32_t>> documents;
    for (int32_t i = 0; i < 90; ++i) {
      documents.emplace_back();
      for (int32_t j = 0; j < 70; ++j) documents.back().push_back(3 + (i * i + 37 * j) % 248);
      documents.back().push_back(2);
    }
    prefix_ = write_token_file(folder_ / "few", documents);
  }
  std::string setting() const {
    return "train_dataset.dataloader.config.data_path=['" + prefix_ + "']";
  }

 private:
  TempDir folder_;
  std::string prefix_;
};

std::string few_tokens() {
  static const FewTokens data;
  return data.setting();
}

// Nothing divides the vocabulary; three ranks; chunks of the loss.
const std::vector<std::string> kOdd = {"checkpoint.load_path=''",
                                       "model.vocab_size=251",
                                       "model.num_attention_heads=6",
                                       "model.num_key_value_heads=3",
                                       "model.head_dim=10",
                                       "model.intermediate_size=96",
                                       "model.attention_bias=true",
                                       "training.steps=4",
                                       "train_dataset.dataloader.config.seq_length=60",
                                       "model.seq_length=60"};

Config odd_config(std::vector<std::string> set, int64_t ranks) {
  set.insert(set.begin(), kOdd.begin(), kOdd.end());
  set.push_back(few_tokens());
  return load_case("llama_sgd64", set, ranks);
}

class OddTensorParallel : public testing::TestWithParam<Layout> {};

TEST_P(OddTensorParallel, EqualsOneRank) {
  static const auto reference = train(odd_config({local_batch(2)}, 1), 1, 4);
  const Layout& layout = GetParam();
  const auto run = train(odd_config(layout.set, layout.ranks), layout.ranks, 4);
  expect_same_training(*run, *reference, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(
    Worlds, OddTensorParallel,
    testing::Values(
        Layout{"tp3", 3, {tp(3), local_batch(2), kLossParallel}},
        Layout{"tp6_copies", 6, {tp(6), local_batch(2), kLossParallel, "model.chunk_loss_num=3"}},
        Layout{"tp3_gathered", 3, {tp(3), local_batch(2), "model.chunk_loss_num=2"}},
        Layout{"tp3_shard2", 6, {tp(3), local_batch(2), kLossParallel, policy("never")}}),
    layout_name);

// Fewer key and value heads than ranks: copies, whose gradients are summed.
TEST(FewKvHeads, EqualOneRank) {
  struct Case {
    const char* kv_heads;
    int64_t tp;
  };
  for (const Case& c : {Case{"1", 2}, Case{"1", 4}, Case{"2", 4}, Case{"2", 8}}) {
    SCOPED_TRACE(testing::Message() << c.kv_heads << " kv heads over tp " << c.tp);
    std::vector<std::string> set{"checkpoint.load_path=''", "model.num_attention_heads=8",
                                 "model.head_dim=8",        "model.attention_bias=true",
                                 "training.steps=3",        local_batch(2)};
    set.push_back("model.num_key_value_heads=" + std::string(c.kv_heads));
    const auto reference = train(load_case("llama_sgd64", set, 1), 1, 3);
    set.push_back(tp(c.tp));
    expect_same_training(*train(load_case("llama_sgd64", set, c.tp), c.tp, 3), *reference, 1e-10);
  }
}

// A model whose logits are all zero: the loss is the logarithm of the true vocabulary, not of a
// rank's part of it nor of a padded one.
TEST(VocabularyLoss, OfZeroLogitsIsTheLogarithmOfTheVocabulary) {
  for (const int64_t vocabulary : {251, 509, 512}) {
    for (const int64_t degree : {1, 2, 4}) {
      for (const char* loss_parallel : {"true", "false"}) {
        SCOPED_TRACE(testing::Message()
                     << vocabulary << " tokens, tp " << degree << ", " << loss_parallel);
        std::vector<std::string> set{"checkpoint.load_path=''", "model.initializer_range=0",
                                     tp(degree), local_batch(2), few_tokens()};
        set.push_back("model.vocab_size=" + std::to_string(vocabulary));
        set.push_back("parallelism.enable_loss_parallel=" + std::string(loss_parallel));
        const auto run = train(load_case("llama_sgd64", set, degree), degree, 1);
        EXPECT_NEAR(run->steps[0].loss, std::log(static_cast<double>(vocabulary)), 1e-13);
      }
    }
  }
}

class OddVocabulary : public testing::TestWithParam<int64_t> {};

TEST_P(OddVocabulary, EqualsOneRank) {
  const std::vector<std::string> base{"checkpoint.load_path=''", "training.steps=3", local_batch(2),
                                      few_tokens(),
                                      "model.vocab_size=" + std::to_string(GetParam())};
  const auto reference = train(load_case("llama_sgd64", base, 1), 1, 3);
  for (const int64_t degree : {2, 4}) {
    for (const bool loss_parallel : {true, false}) {
      SCOPED_TRACE(testing::Message() << "tp " << degree << ", loss parallel " << loss_parallel);
      std::vector<std::string> set = base;
      set.push_back(tp(degree));
      if (loss_parallel) set.push_back(kLossParallel);
      const auto run = train(load_case("llama_sgd64", set, degree), degree, 3);
      expect_same_training(*run, *reference, 1e-10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, OddVocabulary, testing::Values(251, 509));

}  // namespace
}  // namespace tessera::test
