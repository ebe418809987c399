#include "tessera/comm/devices/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& target, int devices, const RankPlace& place) {
  try {
    choose_device(target, devices, place);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RankDevice, OneRankADevice) {
  const RankPlace third{2, 4, 1};
  for (const char* target : {"GPU", "CUDA", "Ascend"}) {
    EXPECT_EQ(choose_device(target, 4, third).device, at::Device(at::kCUDA, 2)) << target;
    EXPECT_EQ(choose_device(target, 1, {}).device, at::Device(at::kCUDA, 0)) << target;
  }
  EXPECT_EQ(choose_device("CPU", 4, third).device, at::Device(at::kCPU));
}

TEST(RankDevice, WhatTheFileLeavesOpenIsSaid) {
  EXPECT_THAT(choose_device("Ascend", 4, {0, 4, 1}).choice, HasSubstr("on CUDA devices"));
  EXPECT_EQ(choose_device("Ascend", 0, {}).device, at::Device(at::kCPU));
  EXPECT_THAT(choose_device("Ascend", 0, {}).choice,
              HasSubstr("on the CPU (no CUDA device here); context.device_target leaves it open"));
  EXPECT_THAT(choose_device("Ascend", 1, {0, 1, 8}).choice, HasSubstr("on the CPU (thread ranks)"));
  EXPECT_THAT(choose_device("Ascend", 2, {3, 4, 1}).choice, HasSubstr("fewer CUDA devices"));
  EXPECT_EQ(choose_device("CPU", 4, {}).choice, "");
  EXPECT_EQ(choose_device("GPU", 4, {}).choice, "");
}

TEST(RankDevice, RefusedWithoutADeviceForEachRank) {
  EXPECT_THAT(refusal("GPU", 0, {}), HasSubstr("no CUDA device here"));
  EXPECT_THAT(refusal("CUDA", 1, {0, 1, 8}), HasSubstr("one rank a device"));
  EXPECT_THAT(refusal("GPU", 2, {0, 4, 1}), HasSubstr("4 workers of this host have 2"));
}

}  // namespace
}  // namespace tessera
