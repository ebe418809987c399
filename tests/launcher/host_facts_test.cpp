#include "tessera/launcher/hosts/host_facts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "temporary_folder.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

// A root folder with what the kernel shows of control groups.
class CpuQuotaOf : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file.string(), text);
  }
  CpuQuota quota() const { return cpu_quota(folder_.path().string()); }

  TemporaryFolder folder_;
};

TEST_F(CpuQuotaOf, NothingIsNoLimit) {
  EXPECT_EQ(quota().cores, 0.0);
  put("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(quota().cores, 0.0);
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota().cores, 0.0);
}

TEST_F(CpuQuotaOf, AContainerOfVersionTwo) {
  put("proc/self/cgroup", "0::/\n");
  put("sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota().cores, 2.5);
}

TEST_F(CpuQuotaOf, TheTightestOfTheGroupsAround) {
  put("proc/self/cgroup", "0::/job/step/task\n");
  put("sys/fs/cgroup/job/cpu.max", "400000 100000\n");
  put("sys/fs/cgroup/job/step/cpu.max", "300000 100000\n");
  put("sys/fs/cgroup/job/step/task/cpu.max", "max 100000\n");
  const CpuQuota found = quota();
  EXPECT_EQ(found.cores, 3.0);
  EXPECT_TRUE(found.group.ends_with("job/step")) << found.group;
}

TEST_F(CpuQuotaOf, APathThatTheContainerDoesNotSee) {
  put("proc/self/cgroup", "0::/kubepods/pod1/box\n");
  put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota().cores, 2.0);
}

TEST_F(CpuQuotaOf, VersionOne) {
  put("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/box\n1:cpuset:/y\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(quota().cores, 3.0);
  put("sys/fs/cgroup/cpu,cpuacct/docker/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota().cores, 0.0);
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota().cores, 1.0);
}

HostFacts facts(const std::string& machine, std::vector<int> cpus, const std::string& box = "") {
  HostFacts result;
  result.machine = machine;
  result.container = machine + box;
  result.cpus = std::move(cpus);
  return result;
}

const std::vector<int> kEight = {0, 1, 2, 3, 4, 5, 6, 7};

TEST(FairThreads, RanksOfAHostShareItsCores) {
  const std::vector<HostFacts> two_hosts = {facts("a", kEight), facts("a", kEight),
                                            facts("b", kEight), facts("b", kEight),
                                            facts("b", kEight)};
  EXPECT_EQ(fair_threads(two_hosts, 0), 4);
  EXPECT_EQ(fair_threads(two_hosts, 4), 2);
  EXPECT_EQ(usable_cores(two_hosts[0]), 8);
  EXPECT_EQ(fair_threads(std::vector<HostFacts>(20, facts("a", {0, 1})), 7), 1);
}

TEST(FairThreads, BoundRanksKeepTheirs) {
  const std::vector<HostFacts> bound = {facts("a", {0, 1, 2}), facts("a", {3, 4, 5}),
                                        facts("a", {6, 7}), facts("a", {6, 7})};
  EXPECT_EQ(fair_threads(bound, 0), 3);
  EXPECT_EQ(fair_threads(bound, 1), 3);
  EXPECT_EQ(fair_threads(bound, 2), 1);
}

TEST(FairThreads, PodsOfAMachineShareItAndKeepTheirQuotas) {
  std::vector<HostFacts> pods = {facts("a", kEight, "1"), facts("a", kEight, "2")};
  EXPECT_EQ(fair_threads(pods, 0), 4);
  pods[0].quota = {2.5, "pod 1"};
  EXPECT_EQ(fair_threads(pods, 0), 2);
  EXPECT_EQ(fair_threads(pods, 1), 4);
  pods[0].quota = {0.3, "pod 1"};
  EXPECT_EQ(fair_threads(pods, 0), 1);
  std::vector<HostFacts> together(4, facts("a", kEight));
  for (HostFacts& one : together) one.quota = {4.0, "box"};
  EXPECT_EQ(fair_threads(together, 3), 1);
  EXPECT_EQ(usable_cores(together[0]), 4);
}

TEST(PlaceOnHost, CountsTheRanksThatSeeEachOther) {
  const std::vector<HostFacts> dealt = {facts("a", {}), facts("b", {}), facts("a", {}),
                                        facts("b", {}), facts("a", {}, "pod")};
  EXPECT_EQ(place_on_host(dealt, 2).local_rank, 1);
  EXPECT_EQ(place_on_host(dealt, 2).local_ranks, 2);
  EXPECT_EQ(place_on_host(dealt, 4).local_rank, 0);
  EXPECT_EQ(place_on_host(dealt, 4).local_ranks, 1);
}

TEST(HostFacts, TravelAsText) {
  HostFacts own = own_host_facts(3);
  own.quota = {1.5, "group"};
  const HostFacts read = host_facts(to_text(own));
  EXPECT_FALSE(own.cpus.empty());
  EXPECT_FALSE(own.machine.empty());
  EXPECT_EQ(read.container, own.container);
  EXPECT_EQ(read.cpus, own.cpus);
  EXPECT_EQ(read.quota.cores, 1.5);
  EXPECT_EQ(read.quota.group, "group");
  EXPECT_EQ(read.devices, 3);
  EXPECT_THROW(host_facts("{"), CommError);
  EXPECT_THROW(host_facts("{\"machine\": 3}"), CommError);
}

}  // namespace
}  // namespace tessera
