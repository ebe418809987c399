#include "tessera/comm/devices/rank_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// `ranks` processes, those of a host one after the other, each of which sees `devices` devices.
std::vector<HostFacts> hosts(int ranks, int devices, int a_host = 1 << 20) {
  std::vector<HostFacts> facts(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    facts[static_cast<size_t>(rank)].container = "host " + std::to_string(rank / a_host);
    facts[static_cast<size_t>(rank)].devices = devices;
  }
  return facts;
}

std::string refusal(const std::string& target, const std::vector<HostFacts>& facts,
                    int thread_ranks = 1) {
  try {
    choose_device(target, facts, 0, thread_ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RankDevice, OneRankADevice) {
  for (const char* target : {"GPU", "CUDA", "Ascend"}) {
    EXPECT_EQ(choose_device(target, hosts(4, 4), 2, 1).device, at::Device(at::kCUDA, 2)) << target;
    EXPECT_EQ(choose_device(target, hosts(1, 1), 0, 1).device, at::Device(at::kCUDA, 0)) << target;
    // Two hosts of four: the number on the host counts.
    EXPECT_EQ(choose_device(target, hosts(8, 4, 4), 6, 1).device, at::Device(at::kCUDA, 2));
  }
  EXPECT_EQ(choose_device("CPU", hosts(4, 4), 2, 1).device, at::Device(at::kCPU));
}

TEST(RankDevice, WhereEachRankSeesOneItTakesThat) {
  for (const char* target : {"GPU", "Ascend"}) {
    for (const int a_host : {4, 1}) {  // devices dealt out by the launcher; pods of one device
      EXPECT_EQ(choose_device(target, hosts(4, 1, a_host), 3, 1).device, at::Device(at::kCUDA, 0));
    }
  }
  std::vector<HostFacts> mixed = hosts(3, 1);
  mixed[1].devices = 2;
  EXPECT_THAT(refusal("Ascend", mixed), HasSubstr("3 workers of the host of rank 0"));
}

TEST(RankDevice, WhatTheFileLeavesOpenIsSaid) {
  EXPECT_THAT(choose_device("Ascend", hosts(4, 4), 0, 1).choice, HasSubstr("on CUDA devices"));
  EXPECT_EQ(choose_device("Ascend", hosts(1, 0), 0, 1).device, at::Device(at::kCPU));
  EXPECT_THAT(choose_device("Ascend", hosts(4, 0), 0, 1).choice,
              HasSubstr("on the CPU (no CUDA device here); context.device_target leaves it open"));
  EXPECT_EQ(choose_device("Ascend", hosts(1, 0), 0, 8).device, at::Device(at::kCPU));
  EXPECT_THAT(choose_device("Ascend", hosts(1, 1), 0, 8).choice,
              HasSubstr("on the CPU (thread ranks)"));
  EXPECT_EQ(choose_device("CPU", hosts(4, 4), 0, 1).choice, "");
  EXPECT_EQ(choose_device("GPU", hosts(4, 4), 0, 1).choice, "");
}

TEST(RankDevice, AMachineWithDevicesIsNotLeftForTheCpuInSilence) {
  EXPECT_THAT(refusal("GPU", hosts(1, 0)), HasSubstr("no CUDA device here"));
  for (const char* target : {"Ascend", "CUDA"}) {
    EXPECT_THAT(refusal(target, hosts(4, 2)),
                AllOf(HasSubstr("4 workers of the host of rank 0, which sees 2 CUDA devices"),
                      HasSubstr("context.device_target: CPU")));
    // One host without devices among others: every rank is told the same.
    std::vector<HostFacts> facts = hosts(4, 2, 2);
    facts[2].devices = facts[3].devices = 0;
    EXPECT_THAT(refusal(target, facts), HasSubstr("host of rank 2, which sees 0 CUDA devices"));
  }
  EXPECT_THAT(refusal("CUDA", hosts(1, 1), 8),
              AllOf(HasSubstr("one rank a device"), HasSubstr("context.device_target: CPU")));
  EXPECT_EQ(refusal("CPU", hosts(4, 2)), "");
}

}  // namespace
}  // namespace tessera
