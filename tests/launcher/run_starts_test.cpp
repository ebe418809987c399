#include "tessera/launcher/run_starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RunStarts : public testing::Test {
 protected:
  // Two workers, shell scripts: $RANK, $START, and what was told of restarts in $TOLD.
  int run(const std::string& script, int max_restarts) {
    StartPlan plan;
    plan.meet = [=](const EarlierStart&, std::unique_ptr<PortClaim>) {
      NodeAssignment place;
      place.max_restarts = max_restarts;
      return place;
    };
    plan.workers = [&](const NodeAssignment& place, const std::vector<Restart>& restarts) {
      std::vector<Worker> workers;
      for (int rank = 0; rank < 2; ++rank) {
        Worker worker;
        worker.rank = rank;
        worker.program.argv = {"/bin/sh", "-c", script};
        worker.program.environment = {{"RANK", std::to_string(rank)},
                                      {"START", std::to_string(place.generation)},
                                      {"TOLD", to_text(restarts)},
                                      {"DIR", folder_.path()}};
        worker.program.output = folder_ / "log_" + std::to_string(rank);
        workers.push_back(worker);
      }
      ++starts_;
      return workers;
    };
    plan.group.settle = std::chrono::milliseconds(200);
    testing::internal::CaptureStderr();
    const int code = run_starts(plan);
    said_ = testing::internal::GetCapturedStderr();
    return code;
  }

  TemporaryFolder folder_;
  int starts_ = 0;
  std::string said_;
};

// It would be the same checkpoint again.
TEST_F(RunStarts, ACheckpointThatCannotBeReadEndsTheRun) {
  EXPECT_EQ(run("exit 4", 5), 4);
  EXPECT_EQ(starts_, 1);
  EXPECT_THAT(said_, HasSubstr("a checkpoint that cannot be read now cannot be read then"));
}

TEST_F(RunStarts, ALostWorkerIsStartedAgainWithAllOthers) {
  EXPECT_EQ(
      run("echo $START >> $DIR/starts$RANK; echo $TOLD > $DIR/told; if [ $START -lt 3 ]; then "
          "[ $RANK = 1 ] && kill -9 $$; exec sleep 10000; fi",
          5),
      0);
  EXPECT_EQ(starts_, 3);
  for (const char* name : {"starts0", "starts1"}) {
    EXPECT_EQ(read_file(folder_ / name), "1\n2\n3\n");
  }
  // Both restarts, since no step was finished.
  EXPECT_THAT(read_file(folder_ / "told"),
              AllOf(HasSubstr("\"generation\":2"), HasSubstr("\"generation\":3")));
  EXPECT_THAT(said_, AllOf(HasSubstr("rank 1 was killed by signal 9"),
                           HasSubstr("the run starts again (start 2)"), HasSubstr("2 restarts:"),
                           Not(HasSubstr("error: "))));
}

TEST_F(RunStarts, WithoutTheFlagNothingStartsAgain) {
  EXPECT_EQ(run("[ $RANK = 1 ] && kill -9 $$; exec sleep 10000", 0), 3);
  EXPECT_EQ(starts_, 1);
  EXPECT_THAT(said_, Not(HasSubstr("restart")));
}

TEST_F(RunStarts, ThreeInVainAreTheLast) {
  EXPECT_EQ(run("[ $RANK = 0 ] && exit 1; exec sleep 10000", 100), 1);
  EXPECT_EQ(starts_, 4);
  EXPECT_THAT(said_, AllOf(HasSubstr("error: rank 0 failed with exit code 1"),
                           HasSubstr("3 times without a finished step"), HasSubstr("3 restarts:")));
}

TEST_F(RunStarts, CodesThatComeAgainEndTheRun) {
  for (const int code : {2, 5, 6}) {
    starts_ = 0;
    EXPECT_EQ(run("exit " + std::to_string(code), 100), code);
    EXPECT_EQ(starts_, 1) << code;
  }
}

TEST_F(RunStarts, AWorkerThatWasAskedToEndStaysEnded) {
  EXPECT_EQ(run("exit 143", 100), 143);
  EXPECT_EQ(starts_, 1);
}

}  // namespace
}  // namespace tessera
