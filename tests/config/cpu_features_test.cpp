// Whether products of bfloat16 count as made in hardware.

#include "tessera/config/cpu_features.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace tessera {
namespace {

// The environment as it was comes back at the end.
class CpuFeatures : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < 2; ++i) {
      if (const char* value = std::getenv(kNames[i])) before_[i] = value;
      ::unsetenv(kNames[i]);
    }
  }
  void TearDown() override {
    for (size_t i = 0; i < 2; ++i) {
      ::unsetenv(kNames[i]);
      if (before_[i]) ::setenv(kNames[i], before_[i]->c_str(), 1);
    }
  }

  static constexpr const char* kNames[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};
  std::optional<std::string> before_[2];
};

TEST_F(CpuFeatures, ALoweredInstructionSetHasNoBfloat16) {
  for (const char* name : kNames) {
    for (const char* set : {"AVX2", "avx2", "SSE41", "AVX512_CORE", "avx512_core_vnni"}) {
      ::setenv(name, set, 1);
      EXPECT_FALSE(cpu_has_bfloat16()) << name << "=" << set;
    }
    ::unsetenv(name);
  }
}

TEST_F(CpuFeatures, AHigherLimitChangesNothing) {
  const bool here = cpu_has_bfloat16();
  for (const char* set : {"", "ALL", "DEFAULT", "AVX512_CORE_BF16", "AVX512_CORE_AMX"}) {
    ::setenv("ONEDNN_MAX_CPU_ISA", set, 1);
    EXPECT_EQ(cpu_has_bfloat16(), here) << set;
  }
  ::setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);  // the first name counts
  EXPECT_EQ(cpu_has_bfloat16(), here);
}

}  // namespace
}  // namespace tessera
