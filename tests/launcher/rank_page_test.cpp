#include "tessera/launcher/rank_page.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera {
namespace {

using std::chrono::milliseconds;

TEST(RankPage, SaysWhatTheRankDoesAndSinceWhen) {
  const auto page = RankPage::create();
  ASSERT_NE(page, nullptr);
  EXPECT_EQ(page->work_text(), "starts");
  EXPECT_EQ(page->time_in_work().count(), 0);
  page->set_work(RankWork::kBackward, 0);
  EXPECT_EQ(page->work_text(), "computes the backward of micro-batch 0");
  page->set_work(RankWork::kReads);
  EXPECT_EQ(page->work_text(), "reads its batch");
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GE(page->time_in_work(), milliseconds(5));
}

TEST(RankPage, TheFirstStepStays) {
  const auto page = RankPage::create();
  EXPECT_EQ(page->first_step(), 0);
  page->begin(8);
  page->set_step(9);
  EXPECT_EQ(page->first_step(), 8);
  EXPECT_EQ(page->step(), 9);
}

TEST(RankPage, WaitsThatAreOverAddUp) {
  const auto page = RankPage::create();
  const std::string what = "all_reduce";
  for (int i = 0; i < 2; ++i) {
    RankPage::Wait wait(page.get(), what);
    wait.on(1);
    std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(page->waits().size(), 1u);
    wait.on(2);  // it goes on with another rank
    wait.done();
  }
  EXPECT_GE(page->waited(), milliseconds(10));
  EXPECT_TRUE(page->waits().empty());
  const auto before = page->waited();
  RankPage::Wait nothing(page.get(), what);
  nothing.done();
  EXPECT_EQ(page->waited(), before);
}

}  // namespace
}  // namespace tessera
