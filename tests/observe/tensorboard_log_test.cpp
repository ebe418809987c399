#include "tessera/observe/tensorboard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.h"
#include "tests/observe/event_reader.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing_events::Events;

// 8 samples a step.
std::string line(int64_t step, double loss, const std::string& more = "") {
  return "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(loss) +
         ", \"grad_norm\": 0.5, \"lr\": 0.001, \"samples\": " + std::to_string(8 * step) +
         ", \"seconds\": 0.2509, \"tflops_per_rank\": 3, \"global_batch_size\": 8" + more + "}";
}

class TensorboardLogTest : public testing::Test {
 protected:
  TensorboardLogOptions options() const {
    TensorboardLogOptions options;
    options.config.output_dir = folder();
    options.points.learning_rate = [](int64_t update) { return static_cast<double>(update); };
    return options;
  }
  std::string folder() const { return (dir_ / "board").string(); }

  // Writes `lines` as a run does; returns the file.
  static std::string write(const TensorboardLogOptions& options,
                           const std::vector<std::string>& lines) {
    TensorboardLog log(options);
    for (const std::string& text : lines) log.add(text);
    return log.path();
  }

  test::TempDir dir_;
};

TEST(Crc32c, IsThatOfItsStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(masked_crc32c("abc"), testing_events::slow_masked_crc("abc"));
}

TEST_F(TensorboardLogTest, TagsAgainstStepsAndSamples) {
  Events events;
  events.read(write(options(), {line(1, 5.5), line(2, 5.25, ", \"mtp_1_loss\": 0.25")}));
  std::vector<std::string> tags;
  for (const auto& [tag, curve] : events.scalars) {
    if (tag.find(" vs samples") == std::string::npos) tags.push_back(tag);
  }
  EXPECT_THAT(tags, ElementsAre("batch-size", "grad-norm", "iteration-time", "learning-rate",
                                "loss", "loss-scale", "mtp-1-loss", "throughput"));
  EXPECT_THAT(events.scalars["loss"], ElementsAre(std::pair(1, 5.5F), std::pair(2, 5.25F)));
  EXPECT_THAT(events.scalars["loss vs samples"],
              ElementsAre(std::pair(8, 5.5F), std::pair(16, 5.25F)));
  EXPECT_THAT(events.scalars["mtp-1-loss"], ElementsAre(std::pair(2, 0.25F)));
  EXPECT_EQ(events.scalars["iteration-time"][1], 250.0F);  // whole milliseconds
  EXPECT_EQ(events.scalars["learning-rate"][2], 2.0F);     // of the update that follows
  EXPECT_EQ(events.scalars["loss-scale"][1], 1.0F);
  EXPECT_THAT(events.starts, ElementsAre(0));
}

TEST_F(TensorboardLogTest, SkippedStepsAreNoUpdates) {
  Events events;
  events.read(
      write(options(), {line(1, 5, ", \"skipped_in_row\": 1, \"skipped\": 1"), line(2, 5)}));
  EXPECT_THAT(events.scalars["learning-rate"], ElementsAre(std::pair(1, 0.0F), std::pair(2, 1.0F)));
}

TEST_F(TensorboardLogTest, NoStepIsDrawnTwiceAfterAResume) {
  std::vector<std::string> lines;
  for (int64_t step = 1; step <= 12; ++step) lines.push_back(line(step, 6));
  const std::string first = write(options(), lines);
  TensorboardLogOptions again = options();
  again.kept.assign(lines.begin(), lines.begin() + 10);
  const std::string second = write(again, {line(11, 4), line(12, 4)});
  EXPECT_LT(first, second);
  Events events;
  events.read(first);
  events.read(second);  // throws if one is
  EXPECT_THAT(events.starts, ElementsAre(0, 11));
  for (int64_t step = 1; step <= 12; ++step) {
    const float loss = step <= 10 ? 6.0F : 4.0F;
    EXPECT_EQ(events.scalars["loss"].at(step), loss) << step;
    EXPECT_EQ(events.scalars["loss vs samples"].at(8 * step), loss) << step;
  }
  EXPECT_EQ(events.scalars["loss vs samples"].size(), 12U);
}

TEST_F(TensorboardLogTest, ARunFromTheStartReplacesWhatIsThere) {
  Events events;
  events.read(write(options(), {line(1, 6), line(2, 6)}));
  events.read(write(options(), {line(1, 5)}));
  EXPECT_THAT(events.scalars["loss"], ElementsAre(std::pair(1, 5.0F)));
}

TEST_F(TensorboardLogTest, Interval) {
  TensorboardLogOptions every_second = options();
  every_second.config.log_interval = 2;
  every_second.config.queue_size = 1;
  Events events;
  events.read(write(every_second, {line(1, 1), line(2, 2), line(3, 3), line(4, 4)}));
  EXPECT_THAT(events.scalars["loss"], ElementsAre(std::pair(2, 2.0F), std::pair(4, 4.0F)));
}

TEST_F(TensorboardLogTest, LoadOfExperts) {
  const std::string loads =
      ", \"tokens_per_expert\": [[4, 0, 8, 0], [3, 3, 3, 3]], \"expert_load\": [{\"layer\": 1, "
      "\"max_over_mean\": 2.5}, {\"layer\": 2, \"max_over_mean\": 1}]";
  TensorboardLogOptions watched = options();
  watched.points.moe.target_layers = {{1}};
  watched.points.moe.save_tokens_per_expert_interval = 2;
  Events events;
  events.read(write(watched, {line(1, 1, loads), line(2, 1, loads)}));
  EXPECT_EQ(events.scalars["experts/layer-1/max-over-mean"][1], 2.5F);
  EXPECT_EQ(events.scalars["experts/layer-1/without-tokens"][1], 2.0F);
  EXPECT_FALSE(events.scalars.contains("experts/layer-2/max-over-mean"));
  const auto& histogram = events.histograms["experts/layer-1/tokens-per-expert"];
  ASSERT_EQ(histogram.size(), 1U);
  EXPECT_THAT(histogram.at(2), ElementsAre(4, 0, 8, 0));
}

TEST_F(TensorboardLogTest, WatchedLossesAndEvaluations) {
  TensorboardLogOptions watched = options();
  watched.points.device_loss = true;
  Events events;
  events.read(write(watched, {line(1, 3,
                                   ", \"eval\": {\"valid\": {\"loss\": 2.5}}, \"train_state\": "
                                   "{\"ranks\": [{\"rank\": 0, \"local_loss\": [1, 2]}, "
                                   "{\"rank\": 1, \"local_loss\": [3, 4]}]}")}));
  EXPECT_EQ(events.scalars["eval/valid/loss"][1], 2.5F);
  EXPECT_EQ(events.scalars["local_loss"][1], 4.0F);
  EXPECT_EQ(events.scalars["device_loss"][1], 3.0F);
}

TEST_F(TensorboardLogTest, WhatIsNoStepIsLeftOut) {
  Events events;
  events.read(write(options(), {"{\"restart\": 1, \"samples\": 0}", R"({"step": 1, "lo)", "",
                                R"({"step": 1, "loss": "nan", "seconds": 1, "samples": 8})"}));
  EXPECT_FALSE(events.scalars.contains("loss"));
  EXPECT_EQ(events.scalars["iteration-time"][1], 1000.0F);
}

TEST_F(TensorboardLogTest, SectionsOfTheFileAreTexts) {
  TensorboardLogOptions with_file = options();
  with_file.yaml = "# resolved\nmodel:\n  hidden_size: 8\ntraining:\n  steps: 3\n";
  Events events;
  events.read(write(with_file, {line(1, 1)}));
  EXPECT_EQ(events.texts["model"], "    model:\n      hidden_size: 8\n");
  EXPECT_EQ(events.texts["training"], "    training:\n      steps: 3\n");
}

TEST_F(TensorboardLogTest, AFolderThatCannotBeIsAnError) {
  TensorboardLogOptions wrong = options();
  wrong.config.output_dir = "/proc/none";
  EXPECT_THROW(TensorboardLog log(wrong), ConfigError);
}

}  // namespace
}  // namespace tessera
