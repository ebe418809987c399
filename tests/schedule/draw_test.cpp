#include "tessera/schedule/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/schedule/make_schedule.h"
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

// A number of every bar, in the order of the file.
std::vector<double> of_bars(const std::string& svg, const std::string& attribute) {
  std::vector<double> values;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) {
    const size_t bar = svg.rfind("<rect", at);
    const std::string name = " " + attribute + "=\"";
    values.push_back(std::stod(svg.substr(svg.find(name, bar) + name.size())));
  }
  return values;
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
  const std::vector<double> x = of_bars(svg, "x");
  const std::vector<double> width = of_bars(svg, "width");
  ASSERT_EQ(x.size(), 2u);
  EXPECT_DOUBLE_EQ(x[1], x[0] + width[0]);
  EXPECT_DOUBLE_EQ(width[1], 3 * width[0]);
}

TEST(ScheduleSvg, PairsAreTwoBars) {
  const ScheduleOptions options = options_1f1b(2, 1, 4, true);
  const PipelineSchedule schedule = make_schedule(options);
  const Simulation run = simulate(schedule, equal_costs(options, 1, 2));
  EXPECT_EQ(count(schedule_svg(schedule, run, ""), "<title>"), 2 * 4 * 2);
}

}  // namespace
}  // namespace tessera
