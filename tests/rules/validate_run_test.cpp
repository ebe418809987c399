// One test per rule: the base file with one thing wrong. Optimizer, schedule, data, recompute.

#include "tessera/rules/validate.h"
#include "tests/config/config_testing.h"

namespace tessera {
namespace {

using namespace testing_config;
using Sets = std::vector<std::string>;

// Optimizer and schedule.

TEST(ValidateRun, Optimizer) {
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9]"}), HasError("optimizer.betas", "exactly two"));
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9, 1.0]"}),
              HasError("optimizer.betas", "at least 0 and below 1"));
  EXPECT_THAT(check_base(1, {"optimizer.momentum=1.0"}), HasError("optimizer.momentum", "below 1"));
  EXPECT_THAT(check_base(1, {"optimizer.weight_decay_exclude=['']"}),
              HasError("optimizer.weight_decay_exclude", "every parameter"));
  EXPECT_THAT(check_base(1, {"optimizer.weight_decay_include=bias"}),
              HasError("optimizer.weight_decay_include", "must be list of str"));
  EXPECT_THAT(check_base(1, {"optimizer.betas=[0.9, 0.9]"}), NamesNoEffect("optimizer.betas"));
}

TEST(ValidateRun, Schedules) {
  const auto lr = [](const std::string& text) {
    return check_base(1, {"lr_scheduler={" + text + "}"});
  };
  EXPECT_THAT(lr("type: ConstantWarmUpLR"), HasError("lr_scheduler.warmup_steps", "is needed"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_ratio: 0.1"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineWithWarmUpLR, learning_rate: 1e-3"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineWithWarmUpLR, power: 2.0"), NamesNoEffect("lr_scheduler.power"));
  EXPECT_THAT(lr("type: PolynomialWithWarmUpLR, learning_rate: 1e-7, warmup_steps: 0"),
              HasError("lr_scheduler.learning_rate", "must be above lr_end"));
  EXPECT_THAT(lr("type: WarmUpStableDecayLR, warmup_steps: 2"),
              HasError("lr_scheduler.decay_start_steps", "is needed"));
  EXPECT_THAT(lr("type: WarmUpStableDecayLR, warmup_steps: 4, decay_start_steps: 2"),
              HasError("lr_scheduler.decay_start_steps", "before the end of the warm-up (4)"));
  EXPECT_THAT(lr("type: ConstantWithCoolDownLR, warmup_steps: 0"),
              HasError("lr_scheduler.decay_steps", "is needed"));
  EXPECT_THAT(lr("type: CosineAnnealingLR, learning_rate: 0.1, t_max: 5"), HasNoErrors());
  EXPECT_THAT(lr("type: CosineAnnealingLR, learning_rate: 0.1, base_lr: 0.2"),
              HasError("lr_scheduler.base_lr", "disagrees with learning_rate"));
  EXPECT_THAT(lr("type: CosineAnnealingLR, t_max: 5"),
              HasError("lr_scheduler.base_lr", "is needed"));
  EXPECT_THAT(lr("type: CosineAnnealingWarmRestarts, base_lr: 0.1"),
              HasError("lr_scheduler.t_0", "is needed"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_steps: 11"),
              HasWarning("lr_scheduler.warmup_steps", "never reached"));
  EXPECT_THAT(lr("type: ConstantWarmUpLR, warmup_steps: 0, total_steps: 5"),
              NamesNoEffect("lr_scheduler.total_steps"));
}

TEST(ValidateRun, ScheduleDefaultsFollowTheType) {
  const auto lr = [](const std::string& text) {
    return check_text(kBase, 1, {"lr_scheduler={" + text + "}"}).result.config.lr_scheduler;
  };
  EXPECT_EQ(lr("type: CosineWithWarmUpLR").num_cycles, 0.5);
  EXPECT_EQ(lr("type: CosineWithRestartsAndWarmUpLR").num_cycles, 1.0);
  EXPECT_EQ(lr("type: PolynomialWithWarmUpLR").lr_end, 1e-7);
  EXPECT_EQ(lr("type: ConstantWarmUpLR, warmup_ratio: 0.39, warmup_steps: 7").warmup_steps, 3);
  EXPECT_EQ(lr("type: ConstantWithCoolDownLR, lr_end1: 0.5").lr_end2, 0.5);
  EXPECT_EQ(lr("type: CosineAnnealingLR, learning_rate: 0.25").base_lr, 0.25);
}

// Data.

TEST(ValidateRun, Data) {
  const std::string c = "train_dataset.dataloader.config.";
  const auto data = [&](const Sets& sets) {
    Sets full;
    for (const std::string& set : sets) full.push_back(c + set);
    return check_base(1, full);
  };
  EXPECT_THAT(data({"data_path=null"}), HasError(c + "data_path", "is needed"));
  EXPECT_THAT(data({"data_path=[]"}), HasError(c + "data_path", "at least one token file"));
  EXPECT_THAT(data({"data_path=[0.5, a, b, c]"}),
              HasError(c + "data_path", "mixes weights and names"));
  EXPECT_THAT(data({"data_path=[-0.5, a]"}), HasError(c + "data_path", "must be positive"));
  EXPECT_THAT(data({"data_path=[0.5, a, 0, b]"}), HasError(c + "data_path", "must be positive"));
  EXPECT_THAT(data({"data_path=[0.5, 0.5]"}), HasError(c + "data_path", "the number 0.5"));
  EXPECT_THAT(data({"data_path=['s3://x/y']"}), HasError(c + "data_path", "must be local"));
  EXPECT_THAT(data({"data_path=[0.5, a, 0.5, b]"}),
              HasError(c + "data_path", "need the number of samples"));
  EXPECT_THAT(data({"data_path=[a, b]"}), HasNoErrors());
  EXPECT_THAT(data({"train_data_path=[a]"}), HasError(c + "data_path", "excludes train_data_path"));
  EXPECT_THAT(data({"data_path=null", "train_data_path=[a]"}),
              HasError(c + "split", "excludes train_data_path"));
  EXPECT_THAT(data({"data_path=null", "train_data_path=[a]", "split=null"}), HasNoErrors());
  EXPECT_THAT(data({"split=null"}), HasError(c + "split", "is needed with data_path"));
  EXPECT_THAT(data({"split='0,1,0'"}), HasError(c + "split", "something for training"));
  EXPECT_THAT(data({"split='1,-1,0'"}), HasError(c + "split", "negative"));
  EXPECT_THAT(data({"split='1,1,1,1'"}), HasError(c + "split", "one to three numbers"));
  EXPECT_THAT(data({"split='[]'"}), HasError(c + "split", "one to three numbers"));
  for (const char* split :
       {"nan,1,1", "inf,1", "9e1,5", "90%,5,5", "train 90", "none", "1.2.3,1", "9-5"}) {
    EXPECT_THAT(data({"split='" + std::string(split) + "'"}),
                HasError(c + "split", "must hold plain numbers"))
        << split;
  }
  EXPECT_THAT(data({"split=[949, 50, 1]"}), HasNoErrors());
  EXPECT_THAT(data({"split='[949,50,1]'"}), HasNoErrors());
  EXPECT_THAT(data({"eod=512"}), HasError(c + "eod", "must be below vocab_size (512)"));
  EXPECT_THAT(data({"pad=512"}), HasError(c + "pad", "must be below vocab_size (512)"));
  EXPECT_THAT(data({"eod=-1", "reset_attention_mask=true"}),
              HasError(c + "eod", "with reset_attention_mask"));
  EXPECT_THAT(data({"eod=-1", "create_compressed_eod_mask=true"}),
              HasError(c + "eod", "with create_compressed_eod_mask"));
  EXPECT_THAT(check_base(1, {"model.seq_length=32"}),
              HasError("model.seq_length", "must be the data's seq_length (64)"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.sizes=[0, 0, 0]"}),
              HasError("train_dataset.dataloader.sizes", "for training"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.sizes=[1, 2, 3, 4]"}),
              HasError("train_dataset.dataloader.sizes", "at most three"));
  EXPECT_THAT(check_base(1, {"train_dataset.dataloader.column_names=[ids]"}),
              HasError("train_dataset.dataloader.column_names[0]", "must be one of input_ids"));
}

TEST(ValidateRun, SeqLengthOfTheDataIsNeeded) {
  std::string text(kBase);
  const std::string line = "      seq_length: 64\n";
  text.erase(text.find(line), line.size());
  EXPECT_THAT(check_text(text, 1).issues,
              HasError("train_dataset.dataloader.config.seq_length", "is needed"));
}

TEST(ValidateRun, CompressedEodMaskSwitchesTheModelToo) {
  const Checked checked =
      check_text(kBase, 1, {"train_dataset.dataloader.config.create_compressed_eod_mask=true"});
  EXPECT_TRUE(checked.result.config.model.use_eod_attn_mask_compression);
}

// Recompute.

TEST(ValidateRun, Recompute) {
  EXPECT_THAT(check_base(1, {"recompute.mode=full"}),
              HasError("recompute.full_recompute_layer", "is needed with mode full"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select"}),
              HasError("recompute.select_module", "is needed with mode select"));
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['0-3']"}),
              HasNoErrors());
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['0-4']"}),
              HasError("recompute.full_recompute_layer", "beyond the last layer, 3"));
  EXPECT_THAT(check_base(1, {"recompute.mode=full", "recompute.full_recompute_layer=['2', '1']"}),
              HasError("recompute.full_recompute_layer", "must come after"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select",
                             "recompute.select_module={mlp: ['0-1'], self_attention: ['9']}"}),
              HasError("recompute.select_module", "self_attention: \"9\" goes beyond"));
  EXPECT_THAT(check_base(1, deepseek({"recompute.mode=full", "model.num_nextn_predict_layers=1",
                                      "model.mtp_loss_factor=0.1",
                                      "recompute.full_recompute_layer=['0-4']"})),
              HasNoErrors());
  const auto comm =
      check_base(1, {"recompute_comm.enable=true", "recompute_comm.select_module={mlp: ['0']}"});
  EXPECT_THAT(comm, HasNoErrors());
  EXPECT_THAT(comm, NamesNoEffect("recompute_comm.enable"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select", "recompute.select_module={attn: ['0']}"}),
              HasError("recompute.select_module", "self_attention.core_attention"));
  EXPECT_THAT(check_base(1, {"recompute.mode=select", "recompute.select_module={'mlp.(': ['0']}"}),
              HasError("recompute.select_module", "is no regular expression"));
  EXPECT_THAT(
      check_base(1, {"recompute.mode=select", "recompute.select_module={'mlp\\..*': ['0']}"}),
      HasNoErrors());
}

TEST(ValidateRun, WhatIsKeptOfRecomputation) {
  const std::vector<std::string> full = {"recompute.mode=full",
                                         "recompute.full_recompute_layer=['0-1']"};
  const auto with = [](std::vector<std::string> sets, const std::string& more) {
    sets.push_back("recompute.exclude_op=" + more);
    return check_base(1, sets);
  };
  EXPECT_THAT(with(full, "{'self_attention.core_attention': ['0-1']}"), HasNoErrors());
  EXPECT_THAT(with(full, "{'mlp.*': [0]}"), HasNoErrors());
  EXPECT_THAT(with(full, "[matmul]"), HasError("recompute.exclude_op", "must be dict of list"));
  EXPECT_THAT(with(full, "{'': ['0']}"), HasError("recompute.exclude_op", "empty pattern"));
  EXPECT_THAT(with(full, "{attn: ['0']}"), HasError("recompute.exclude_op", "matches no module"));
  EXPECT_THAT(with(full, "{mlp: ['9']}"), HasError("recompute.exclude_op", "goes beyond"));
  EXPECT_THAT(with(full, "{mlp: ['3']}"),
              HasWarning("recompute.exclude_op", "nothing that it matches would run again"));
  EXPECT_THAT(with({}, "{mlp: ['0']}"), NamesNoEffect("recompute.exclude_op"));
}

TEST(ValidateRun, ARollbackNeedsCheckpoints) {
  EXPECT_THAT(check_base(1, {"elastic.spike.factor=5", "elastic.spike.action=rollback",
                             "checkpoint.enable_save=false"}),
              HasError("elastic.spike.action", "checkpoint.enable_save"));
  EXPECT_THAT(check_base(1, {"elastic.spike.factor=1"}),
              HasError("elastic.spike.factor", "0 or more than 1"));
  EXPECT_THAT(check_base(1, {"elastic.spike.factor=5", "checkpoint.enable_save=false"}),
              testing::Not(HasError("elastic.spike.action", "")));
}

TEST(ValidateRun, Callbacks) {
  EXPECT_THAT(check_base(1, {"callbacks=[{type: MaxLogitsMonitor, step_interval: 5}]"}),
              HasNoErrors());
  EXPECT_THAT(check_base(1, {"callbacks=[{type: MaxLogitsReset}]"}), NamesNoEffect("callbacks"));
  EXPECT_THAT(check_base(1, {"callbacks=[{type: MaxLogitsMonitor, step_interval: 0}]"}),
              HasError("callbacks[0]", "step_interval must be at least 1"));
  EXPECT_THAT(check_base(1, {"callbacks=[{type: CheckpointMonitor}]"}),
              HasError("callbacks[0]", "see the section checkpoint"));
  EXPECT_THAT(check_base(1, {"callbacks=[{type: MaxLogitsMonitor, every: 5}]"}),
              HasError("callbacks", "unknown key every"));
}

// The base file has 8 samples an update; at 2 ranks they come in twos.
TEST(ValidateRun, GrowingBatch) {
  const std::string field = "training.rampup_batch_size";
  const auto with = [&](const std::string& ramp, int64_t world = 2) {
    return check_base(world, {field + "=" + ramp});
  };
  EXPECT_THAT(with("[2, 2, 100]"), HasNoErrors());
  EXPECT_THAT(with("[8, 3, 100]"), HasNoErrors()) << "nothing to grow";
  EXPECT_THAT(with("[4, 4, 0]"), HasNoErrors());
  EXPECT_THAT(with("[2, 2]"), HasError(field, "must be three ints"));
  EXPECT_THAT(with("[2, 2, true]"), HasError(field, "item 2 must be int, not bool"));
  EXPECT_THAT(with("[0, 2, 100]"), HasError(field, "first batch must be at least 1"));
  EXPECT_THAT(with("[2, 0, 100]"), HasError(field, "increment must be at least 1"));
  EXPECT_THAT(with("[2, 2, -1]"), HasError(field, "samples must be at least 0"));
  EXPECT_THAT(with("[10, 2, 100]"), HasError(field, "starts above global_batch_size (8)"));
  EXPECT_THAT(with("[2, 4, 100]"), HasError(field, "does not arrive at global_batch_size (8)"));
  EXPECT_THAT(with("[3, 5, 100]"), HasError(field, "first batch must be a multiple of"));
  EXPECT_THAT(with("[2, 3, 100]"), HasError(field, "increment must be a multiple of"));
  EXPECT_THAT(check_base(3, {field + "=[3, 5, 100]"}),
              HasError("training.global_batch_size", "must be a multiple of"));
}

TEST(ValidateRun, KeysThatNeedOthers) {
  EXPECT_THAT(check_base(1, {"training.max_consecutive_skipped_steps=3"}),
              NamesNoEffect("training.max_consecutive_skipped_steps"));
  EXPECT_THAT(check_base(1, {"training.max_consecutive_skipped_steps=-1"}),
              HasError("training.max_consecutive_skipped_steps", "must be at least 0"));
  EXPECT_THAT(check_base(2, {"train_dataset.balance_enabled=true"}),
              HasError("train_dataset.balance_enabled", "needs create_compressed_eod_mask"));
  const std::vector<std::string> packed = {
      "train_dataset.balance_enabled=true",
      "train_dataset.dataloader.config.create_compressed_eod_mask=true"};
  EXPECT_THAT(check_base(2, packed), HasNoErrors());
  EXPECT_THAT(check_base(1, packed), NamesNoEffect("train_dataset.balance_enabled"));
}

}  // namespace
}  // namespace tessera
