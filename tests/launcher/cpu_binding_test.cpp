#include "tessera/launcher/hosts/cpu_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<int> kCpus = {0, 1, 2, 3, 8, 9, 10};

std::string refusal(const std::string& option, int workers) {
  try {
    bind_cores(option, workers, kCpus);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CpuBinding, FalseBindsNobody) {
  EXPECT_THAT(bind_cores("False", 2, kCpus), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(CpuBinding, TrueCutsTheCoresIntoRuns) {
  EXPECT_THAT(bind_cores("True", 3, kCpus),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(8, 9, 10)));
}

TEST(CpuBinding, MoreWorkersThanCoresTakeTurns) {
  EXPECT_THAT(bind_cores("true", 3, {4, 5}),
              ElementsAre(ElementsAre(4), ElementsAre(5), ElementsAre(4)));
}

TEST(CpuBinding, Dictionary) {
  EXPECT_THAT(bind_cores(R"({"device1": ["8-9", 3], "device0": ["0-2"]})", 2, kCpus),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(8, 9, 3)));
}

TEST(CpuBinding, Refusals) {
  EXPECT_THAT(refusal("yes", 1), HasSubstr("must be True, False or a dictionary"));
  EXPECT_THAT(refusal(R"({"device0": ["0"]})", 2), HasSubstr("\"device1\""));
  EXPECT_THAT(refusal(R"({"device0": ["0-4"]})", 1), HasSubstr("core 4 is not among"));
  EXPECT_THAT(refusal(R"({"device0": ["3-1"]})", 1), HasSubstr("no range of cores"));
  EXPECT_THAT(refusal(R"({"device0": ["1-2x"]})", 1), HasSubstr("no range of cores"));
  EXPECT_THAT(refusal(R"({"device0": []})", 1), HasSubstr("no list of cores"));
}

TEST(CpuBinding, ThisProcessMayUseSomeCore) { EXPECT_FALSE(allowed_cpus().empty()); }

}  // namespace
}  // namespace tessera
