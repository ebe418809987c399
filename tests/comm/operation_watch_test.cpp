// Who is missing, told by threads that stand for ranks: what they start "completes" when told to.

#include "tessera/comm/operation_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tessera/comm/processes/meeting_point.h"
#include "tests/comm/process_ranks.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// One rank's watch, and what it reports.
class Rank {
 public:
  Rank(c10::intrusive_ptr<c10d::Store> store, int rank, milliseconds timeout,
       milliseconds grace = std::chrono::seconds(5)) {
    OperationWatch::Options options;
    options.rank = rank;
    options.timeout = timeout;
    options.grace = grace;
    options.report = [this](const std::string& message) {
      const std::lock_guard lock(mutex_);
      said_ = message;
      has_said_.notify_all();
    };
    watch_ = std::make_unique<OperationWatch>(std::move(store), std::move(options));
  }

  OperationWatch& operator*() { return *watch_; }
  OperationWatch* operator->() { return watch_.get(); }

  std::string said() {
    std::unique_lock lock(mutex_);
    has_said_.wait_for(lock, std::chrono::seconds(600), [this] { return !said_.empty(); });
    return said_;
  }
  bool quiet() {
    const std::lock_guard lock(mutex_);
    return said_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_said_;
  std::string said_;
  std::unique_ptr<OperationWatch> watch_;  // its thread ends before the rest
};

bool completed() { return true; }
bool waiting() { return false; }

void start(OperationWatch::Lane& lane, const std::string& what, bool (*done)()) {
  lane.started(lane.begin(what), done);
}

const std::vector<int> kFour = {0, 1, 2, 3};

TEST(OperationWatch, NamesOperationGroupAndWhoHasNotStartedIt) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.push_back(std::make_unique<Rank>(store, r, milliseconds(500)));
    const auto lane = (*ranks.back())->lane("tp", kFour);
    start(*lane, "all_reduce in group tp", completed);
    if (r == 2) continue;  // computes
    start(*lane, "all_gather in group tp", waiting);
    start(*lane, "reduce_scatter in group tp", waiting);  // behind it, not asked for
  }
  for (const int r : {0, 1, 3}) {
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->said(),
              "all_gather in group tp: no answer within 0.5 s from rank 2");
  }
  EXPECT_TRUE(ranks[2]->quiet());
}

TEST(OperationWatch, SaysWhatTheMissingRankWaitsForInstead) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank first(store, 0, milliseconds(500)), second(store, 1, milliseconds(500));
  start(*first->lane("tp", {0, 1}), "all_reduce in group tp", waiting);
  second->lane("tp", {0, 1});
  start(*second->lane("pp/0-1", {0, 1}), "recv in group pp", waiting);
  EXPECT_EQ(first.said(),
            "all_reduce in group tp: no answer within 0.5 s from rank 1; rank 1 waits for recv in "
            "group pp");
  EXPECT_EQ(second.said(),
            "recv in group pp: no answer within 0.5 s from rank 0; rank 0 waits for all_reduce in "
            "group tp");
}

// Rank 1 has started the operation long after rank 0 and has much time left, but says where it is.
TEST(OperationWatch, ARankThatCameLateIsNotMissing) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank first(store, 0, milliseconds(4000)), late(store, 1, milliseconds(60000));
  const auto of_first = first->lane("tp", {0, 1, 2}), of_late = late->lane("tp", {0, 1, 2});
  start(*of_first, "all_reduce in group tp", waiting);
  std::this_thread::sleep_for(milliseconds(300));
  start(*of_late, "all_reduce in group tp", waiting);
  EXPECT_EQ(first.said(), "all_reduce in group tp: no answer within 4 s from rank 2");
  EXPECT_TRUE(late.quiet());
}

TEST(OperationWatch, AStartThatWaitsForOthersIsWatchedToo) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank rank(store, 1, milliseconds(300), milliseconds(200));
  rank->lane("dp", {1, 5, 9})->begin("broadcast in group dp");
  EXPECT_EQ(rank.said(), "broadcast in group dp: no answer within 0.3 s from ranks 5, 9");
}

TEST(OperationWatch, AllHaveStartedAndNothingCompletes) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank first(store, 0, milliseconds(300)), second(store, 1, milliseconds(300));
  for (Rank* rank : {&first, &second}) {
    start(*(*rank)->lane("tp", {0, 1}), "all_reduce in group tp", waiting);
  }
  EXPECT_EQ(first.said(),
            "all_reduce in group tp: not complete within 0.3 s, though all its ranks have started "
            "it");
}

// What completes costs the store nothing, and what failed is told elsewhere.
TEST(OperationWatch, WhatCompletesLeavesNoTrace) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Rank rank(store, 0, milliseconds(100));
  const auto lane = rank->lane("tp", {0, 1});
  std::atomic<int> asked{0};
  for (int i = 0; i < 1000; ++i) {
    lane->started(lane->begin("all_reduce"), [&asked] { return ++asked > 0; });
  }
  lane->started(lane->begin("all_reduce"), []() -> bool { throw std::runtime_error("a device"); });
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_EQ(lane->begun(), 1001);
  EXPECT_FALSE(lane->oldest());
  EXPECT_EQ(asked, 1000);  // once each, when the next one starts
  EXPECT_EQ(store->getNumKeys(), 0);
  EXPECT_TRUE(rank.quiet());
}

TEST(OperationWatch, OverTheStoreOfAJobAndWithoutIt) {
  MeetingOptions options;
  options.master_port = test::free_port();
  options.job = "test";
  auto meeting = std::make_unique<MeetingPoint>(options);
  {
    Rank first(meeting->store().clone(), 0, milliseconds(500)),
        second(meeting->store().clone(), 1, milliseconds(500));
    start(*first->lane("tp", {0, 1, 2}), "all_reduce in group tp", waiting);
    start(*second->lane("tp", {0, 1, 2}), "all_reduce in group tp", waiting);
    for (Rank* rank : {&first, &second}) {
      EXPECT_EQ(rank->said(), "all_reduce in group tp: no answer within 0.5 s from rank 2");
    }
  }
  Rank left(meeting->store().clone(), 1, milliseconds(500));
  meeting.reset();
  start(*left->lane("tp", {0, 1}), "all_reduce in group tp", waiting);
  EXPECT_THAT(left.said(),
              HasSubstr("no answer within 0.5 s; rank 0, which knows from whom, is gone"));
}

}  // namespace
}  // namespace tessera
