// Rules of monitor and callbacks.

#include <algorithm>

#include "tessera/rules/checker.h"

namespace tessera {
namespace {

// Names of static-graph files, and the key that says the same.
struct Elsewhere {
  std::string_view type;
  std::string_view key;
};
constexpr Elsewhere kElsewhere[] = {
    {"MFLossMonitor", "the log line of every step"},
    {"CheckpointMonitor", "the section checkpoint"},
    {"TrainingStateMonitor", "monitor.train_state"},
    {"TopkBiasBalanceCallback", "model.moe_router_enable_expert_bias"},
};

// Keys of parallelism that a layout of elastic.layouts may have.
constexpr std::string_view kLayoutKeys[] = {"tensor_parallel",   "context_parallel",
                                            "pipeline_parallel", "pipeline_parallel_interleave_num",
                                            "expert_parallel",   "data_parallel_shard"};

void check_layouts(Checker& check) {
  const auto& layouts = check.config.elastic.layouts;
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (const auto& [key, degree] : layouts[i]) {
      const auto say = [&, &key = key, degree = degree](const std::string& what) {
        check.error_at("elastic.layouts", static_cast<int64_t>(i),
                       key + ": " + std::to_string(degree), what);
      };
      if (std::ranges::find(kLayoutKeys, key) == std::end(kLayoutKeys)) {
        say("is none of tensor_parallel, context_parallel, pipeline_parallel, "
            "pipeline_parallel_interleave_num, expert_parallel, data_parallel_shard");
      } else if (!(key == "data_parallel_shard" && degree == -1) &&
                 (degree < 1 || degree > int64_t{1} << 20)) {
        say("must be 1 to 1048576");
      }
    }
  }
}

}  // namespace

void check_monitors(Checker& check) {
  check_layouts(check);
  const SpikeConfig& spike = check.config.elastic.spike;
  if (spike.factor != 0 && spike.factor <= 1) {
    check.error("elastic.spike.factor", "must be 0 or more than 1");
  }
  if (spike.factor != 0 && spike.action == "rollback" && !check.config.checkpoint.enable_save) {
    check.error("elastic.spike.action",
                "rollback needs checkpoints to go back to: checkpoint.enable_save = true");
  }
  const TensorboardConfig& board = check.config.monitor.tensorboard;
  const TensorboardConfig defaults;
  if (board.log_interval < 1) {
    check.warning("monitor.tensorboard.log_interval",
                  "is not positive; " + std::to_string(defaults.log_interval) + " is used");
  }
  if (board.queue_size < 1) {
    check.warning("monitor.tensorboard.queue_size",
                  "is not positive; " + std::to_string(defaults.queue_size) + " is used");
  }
  const std::vector<CallbackConfig>& callbacks = check.config.callbacks;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    const CallbackConfig& callback = callbacks[i];
    const auto say = [&](const std::string& what) {
      check.error_at("callbacks", static_cast<int64_t>(i), callback.type, what);
    };
    if (callback.type == "MaxLogitsReset") {
      check.no_effect("callbacks");
    } else if (callback.type == "MaxLogitsMonitor") {
      if (callback.step_interval < 1) say("step_interval must be at least 1");
    } else {
      const auto* const elsewhere = std::ranges::find(kElsewhere, callback.type, &Elsewhere::type);
      say("must be MaxLogitsMonitor or MaxLogitsReset" +
          (elsewhere == std::end(kElsewhere) ? "" : "; see " + std::string(elsewhere->key)));
    }
  }
}

}  // namespace tessera
