// Every schedule that the generator can make: proven, and its idle time and live chunks as the
// closed forms say.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tessera/schedule/make_schedule.h"
#include "tessera/schedule/schedule_formulas.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/validate_schedule.h"
#include "tests/schedule/options.h"

namespace tessera {
namespace {

// TESSERA_MATRIX=full takes every combination, else every value and a spread of combinations.
bool full() {
  const char* matrix = std::getenv("TESSERA_MATRIX");
  return matrix != nullptr && std::string_view(matrix) == "full";
}

void check(ScheduleOptions options) {
  SCOPED_TRACE("p " + std::to_string(options.stages) + ", v " + std::to_string(options.chunks) +
               ", m " + std::to_string(options.micro_batches));
  PipelineSchedule schedule = make_schedule(options);
  ASSERT_EQ(validate_schedule(schedule).value_or("valid"), "valid");
  for (const bool overlap_p2p : {false, true}) {
    schedule.options.overlap_p2p = overlap_p2p;
    // The ratio of backward to forward must not matter.
    const double backward = 1 + static_cast<double>((options.stages + options.micro_batches) % 3);
    const Simulation run = simulate(schedule, equal_costs(options, 1, backward));
    ASSERT_NEAR(run.idle_over_ideal(), idle_over_ideal(options), 1e-9);
    for (int64_t rank = 0; rank < options.stages; ++rank) {
      ASSERT_EQ(run.ranks[rank].peak_live, peak_live_chunks(options, rank)) << "rank " << rank;
    }
  }
}

template <typename MakeOptions>
void sweep(MakeOptions make_options) {
  const int64_t stride = full() ? 1 : 23;
  int64_t i = 0;
  for (int64_t stages = 1; stages <= 16; ++stages) {
    for (int64_t chunks = 1; chunks <= 8; ++chunks) {
      for (int64_t micro_batches = 1; micro_batches <= 64; ++micro_batches) {
        const bool small = stages <= 4 && chunks <= 3 && micro_batches <= 9;
        if (++i % stride != 0 && !small) continue;
        check(make_options(stages, chunks, micro_batches));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(ScheduleSweep, OneForwardOneBackward) {
  sweep([](int64_t p, int64_t v, int64_t m) { return testing::options_1f1b(p, v, m); });
}

TEST(ScheduleSweep, OverlappedPairs) {
  sweep([](int64_t p, int64_t v, int64_t m) { return testing::options_1f1b(p, v, m, true); });
}

TEST(ScheduleSweep, GPipe) {
  sweep([](int64_t p, int64_t v, int64_t m) { return testing::options_gpipe(p, v, m); });
}

}  // namespace
}  // namespace tessera
