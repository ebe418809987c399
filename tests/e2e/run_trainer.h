#pragma once

// Trainers on thread ranks, for tests that look at one from outside: at what it leaves on disk and
// in memory.

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/train/parity/recorder.h"
#include "tessera/train/trainer.h"

namespace tessera::test {

/// Trains until `last` updates are done, as the file and its checkpoints say. `options` may name
/// what the file was read with, another source, and what is called when gradients are finished; its
/// end and other observers are set here.
std::unique_ptr<RunRecord> run_until(const Config& config, int64_t ranks, int64_t last,
                                     TrainerOptions options = {});

/// Bytes of tensors.
struct Measured {
  std::vector<int64_t> persistent;  // [rank] after a step: masters and moments
  std::vector<int64_t> peak;        // [rank] of the last step
};

/// Makes `steps` steps. Without a source in `options` the file's data are read.
Measured measure_memory(const Config& config, int64_t ranks, TrainerOptions options = {},
                        int64_t steps = 2);

}  // namespace tessera::test
