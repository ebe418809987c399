#include "tessera/schedule/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/schedule/options.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using testing::options_1f1b;

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(ScheduleTable, RowsAndColumns) {
  EXPECT_EQ(schedule_table(make_schedule(options_1f1b(2, 1, 3))),
            "rank 0  F0@0 .    F1@0 B0@0 F2@0 B1@0 .    B2@0\n"
            "rank 1  .    F0@1 B0@1 F1@1 B1@1 F2@1 B2@1 .\n");
}

TEST(ScheduleTable, BreaksLongRows) {
  const std::string table = schedule_table(make_schedule(options_1f1b(2, 1, 3)), 28);
  EXPECT_EQ(table,
            "rank 0  F0@0 .    F1@0 B0@0\n"
            "rank 1  .    F0@1 B0@1 F1@1\n"
            "\n"
            "rank 0  F2@0 B1@0 .    B2@0\n"
            "rank 1  B1@1 F2@1 B2@1 .\n");
}

TEST(ScheduleTable, PairsTakeOneCell) {
  EXPECT_EQ(schedule_table(make_schedule(options_1f1b(1, 1, 2, true))),
            "rank 0  F0@0 [B0@0|F1@0] B1@0\n");
}

TEST(ScheduleSvg, HasABarForEveryComputation) {
  const ScheduleOptions options = options_1f1b(4, 2, 8);
  const PipelineSchedule schedule = make_schedule(options);
  const Simulation run = simulate(schedule, equal_costs(options, 1, 2));
  const std::string svg = schedule_svg(schedule, run, "4 ranks & 2 chunks");
  EXPECT_EQ(count(svg, "<title>"), 4 * 2 * 8 * 2);
  EXPECT_THAT(svg, HasSubstr("<title>F7@7: "));
  EXPECT_THAT(svg, HasSubstr("4 ranks &amp; 2 chunks"));
  EXPECT_THAT(svg, HasSubstr("idle 15.8 %, live 11"));
  EXPECT_THAT(svg, HasSubstr("idle 15.8 %, live 5"));
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(ScheduleSvg, BarsStandAtTheirTimes) {
  const ScheduleOptions options = options_1f1b(1, 1, 1);
  const PipelineSchedule schedule = make_schedule(options);
  const std::string svg =
      schedule_svg(schedule, simulate(schedule, equal_costs(options, 1, 3)), "");
  const std::regex bar("<rect x=\"([0-9.]+)\" y=\"[0-9.]+\" width=\"([0-9.]+)\"[^>]*><title>");
  std::vector<double> numbers;
  for (std::sregex_iterator i(svg.begin(), svg.end(), bar), end; i != end; ++i) {
    numbers.push_back(std::stod((*i)[1]));
    numbers.push_back(std::stod((*i)[2]));
  }
  ASSERT_EQ(numbers.size(), 4u);
  EXPECT_DOUBLE_EQ(numbers[2], numbers[0] + numbers[1]);
  EXPECT_DOUBLE_EQ(numbers[3], 3 * numbers[1]);
}

TEST(ScheduleSvg, PairsAreTwoBars) {
  const ScheduleOptions options = options_1f1b(2, 1, 4, true);
  const PipelineSchedule schedule = make_schedule(options);
  const Simulation run = simulate(schedule, equal_costs(options, 1, 2));
  EXPECT_EQ(count(schedule_svg(schedule, run, ""), "<title>"), 2 * 4 * 2);
}

}  // namespace
}  // namespace tessera
