#include "tessera/layout/resharding.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Resharding of(const std::string& policy, int64_t stages) {
  Config config;
  config.parallelism.reshard_after_forward_policy = policy;
  return resharding(config, {.world = stages, .pp = stages});
}

void expect(const Resharding& r, bool all_step, bool head, bool once) {
  EXPECT_EQ(r.keep_all_step, all_step);
  EXPECT_EQ(r.keep_head, head);
  EXPECT_EQ(r.reduce_once, once);
}

TEST(Resharding, EveryPolicyWithAndWithoutAPipeline) {
  expect(of("always", 1), false, false, false);
  expect(of("always", 2), false, false, false);
  expect(of("default", 1), false, true, false);
  expect(of("default", 2), true, true, true);
  expect(of("never", 1), true, true, false);
  expect(of("never", 2), true, true, true);
}

}  // namespace
}  // namespace tessera
