#include "tests/e2e/run_trainer.h"

#include "tessera/comm/memory.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tessera/train/open_training_data.h"

namespace tessera::test {

std::unique_ptr<RunRecord> run_until(const Config& config, int64_t ranks, int64_t last,
                                     TrainerOptions options) {
  auto record = std::make_unique<RunRecord>();
  if (!options.source) options.source = open_training_data(config);
  options.stop_after = last;
  options.on_step = [&](const StepMetrics& metrics, const ParamTable& table,
                        const DeviceMesh& mesh) {
    record->record_step(metrics, mesh);
    if (metrics.step == last) record->record_values(table, mesh);
  };
  run_ranks(static_cast<int>(ranks),
            [&](const ProcessGroup& world) { Trainer(config, world, options).run(); });
  return record;
}

Measured measure_memory(const Config& config, int64_t ranks, TrainerOptions options,
                        int64_t steps) {
  Measured measured;
  measured.persistent.resize(static_cast<size_t>(ranks));
  measured.peak.resize(measured.persistent.size());
  if (!options.source) options.source = open_training_data(config);
  run_ranks(static_cast<int>(ranks), [&](const ProcessGroup& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const int64_t before = memory_use(memory_rank()).current;
    Trainer trainer(config, world, options);
    for (int64_t i = 1; i < steps; ++i) trainer.train_step();
    const StepMetrics step = trainer.train_step();
    measured.persistent[rank] = memory_use(memory_rank()).current - before;
    measured.peak[rank] = step.peak_memory_of_rank.at(rank) - before;
  });
  return measured;
}

}  // namespace tessera::test
