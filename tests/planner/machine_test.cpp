#include "tessera/planner/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/planner/machine/machine_file.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::string kFolder = std::string(TESSERA_SOURCE_DIR) + "/machines/";

constexpr const char* kSmall =
    "name: small\n"
    "memory_bandwidth: 1e10\n"
    "in_node: {name: wire, bandwidth: 1e9, latency: 1e-6}\n"
    "compute:\n"
    "  float32: {peak: 1e11, products: [[64, 0.5], [1024, 1]], attention: 5e10,\n"
    "            attention_back: 4e10}\n";

std::string problems(const std::string& text) {
  return format_issues(read_machine_texts({text}, {"m.yaml"}).issues);
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(MachineFile, EveryProfileIsReadAndEveryNumberHasItsSource) {
  int profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    std::vector<std::string> paths = {entry.path().string()};
    const bool network = entry.path().filename().string().find("_") != std::string::npos &&
                         read_machine(paths).machine.compute.empty();
    if (network) paths.insert(paths.begin(), kFolder + "h100_sxm.yaml");
    const MachineResult result = read_machine(paths);
    EXPECT_TRUE(result.ok()) << entry.path() << "\n" << format_issues(result.issues);
    EXPECT_THAT(result.unsourced, IsEmpty()) << entry.path();
    EXPECT_FALSE(result.machine.measured);
    profiles += network ? 0 : 1;
  }
  EXPECT_EQ(profiles, 6);
}

TEST(MachineFile, ALaterFileReplacesTheNetworkAlone) {
  const auto both = read_machine({kFolder + "h100_sxm.yaml", kFolder + "ethernet_100.yaml"});
  ASSERT_TRUE(both.ok()) << format_issues(both.issues);
  EXPECT_EQ(both.machine.between.name, "Ethernet 100");
  EXPECT_EQ(both.machine.in_node.name, "NVLink 4");
}

TEST(MachineFile, WrittenAndReadItIsTheSame) {
  Machine machine = read_machine_texts({kSmall}, {"m.yaml"}).machine;
  machine.measured = true;
  machine.host = "box, a processor, 2 cores";
  machine.sharing.points = {{1, 1}, {2, 1.5}};
  machine.collectives = {{"threads", "all_gather", 4, {{{1024, 1e-5}, {1048576, 2e-3}}}}};
  const MachineResult read = read_machine_texts({machine_yaml(machine)}, {"m.yaml"});
  EXPECT_TRUE(read.ok()) << format_issues(read.issues);
  EXPECT_EQ(read.machine, machine);
  EXPECT_THAT(machine_warning(machine), HasSubstr("another host"));
}

TEST(MachineFile, WhatIsWrongIsToldByField) {
  EXPECT_EQ(problems(kSmall), "");
  EXPECT_THAT(problems(with("1e10", "-3")), HasSubstr("m.yaml:2: memory_bandwidth = -3"));
  EXPECT_THAT(problems(with("1e10", "nan")), HasSubstr("memory_bandwidth = nan"));
  EXPECT_THAT(problems(with("peak: 1e11", "peak: fast")),
              HasSubstr("compute.float32.peak = fast: must be a number"));
  EXPECT_THAT(problems(with("[1024, 1]", "[32, 1]")), HasSubstr("compute.float32.products[1]"));
  EXPECT_THAT(problems(with("[1024, 1]", "[1024, 7]")),
              HasSubstr("compute.float32.products[1][1] = 7"));
  EXPECT_THAT(problems(with("memory_bandwidth", "memory_bandwith")),
              HasSubstr("nearest legal: memory_bandwidth"));
  EXPECT_THAT(problems(with("memory_bandwidth: 1e10\n", "")),
              HasSubstr("memory_bandwidth: is missing"));
  EXPECT_THAT(problems(with("float32", "int3")), HasSubstr("compute.int3"));
  EXPECT_THAT(problems("[1]"), HasSubstr("must be a map"));
}

TEST(Curve, GoesStraightInLogarithmsAndStaysBeyondItsEnds) {
  const Curve curve{{{64, 0.25}, {1024, 1}}};
  EXPECT_DOUBLE_EQ(curve(1), 0.25);
  EXPECT_DOUBLE_EQ(curve(256), 0.5);
  EXPECT_DOUBLE_EQ(curve(1e6), 1);
}

}  // namespace
}  // namespace tessera
