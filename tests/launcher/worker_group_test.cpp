#include "tessera/launcher/worker_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "temporary_folder.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};

class WorkerGroup : public testing::Test {
 protected:
  // Workers are shell scripts; $RANK tells them apart.
  std::vector<Worker> workers(int count, const std::string& script, int echoed = -1) {
    std::vector<Worker> list;
    for (int rank = 0; rank < count; ++rank) {
      Worker worker;
      worker.rank = rank;
      worker.program.argv = {"/bin/sh", "-c", script};
      worker.program.environment = {{"RANK", std::to_string(rank)}, {"DIR", folder_.path()}};
      worker.program.output = folder_ / ("worker_" + std::to_string(rank) + ".log");
      worker.echo = rank == echoed;
      list.push_back(worker);
    }
    return list;
  }

  Ended run(const std::vector<Worker>& list) {
    Ended ended;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      const GroupOutcome outcome = run_worker_group(list, options_);
      if (outcome.failure) log_error(outcome.failure->report);
      ended.code = outcome.exit_code;
    } catch (...) {
      testing::internal::GetCapturedStdout();
      testing::internal::GetCapturedStderr();
      throw;
    }
    ended.out = testing::internal::GetCapturedStdout();
    ended.err = testing::internal::GetCapturedStderr();
    return ended;
  }

  std::string log(int rank) {
    return read_file(folder_ / ("worker_" + std::to_string(rank) + ".log"));
  }

  // The pid that a worker left in the file `name`.
  pid_t pid_in(const std::string& name) {
    for (int i = 0; i < 60000; ++i) {
      const std::string text = read_file(folder_ / name);
      if (!text.empty() && text.back() == '\n') return std::stoi(text);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }

  static bool gone(pid_t pid) {
    for (int i = 0; i < 60000; ++i) {
      if (::kill(pid, 0) != 0) return true;
      // An orphan that nobody reaps is gone as well.
      const std::string state = read_file("/proc/" + std::to_string(pid) + "/stat");
      if (state.find(") Z ") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  static int occurrences(const std::string& text, const std::string& what) {
    int count = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++count;
    return count;
  }

  // The workers of a test that all end by themselves get the time that they need.
  void let_them_end() { options_.settle = std::chrono::hours(1); }

  TemporaryFolder folder_;
  WorkerGroupOptions options_;
};

TEST_F(WorkerGroup, AllEndWell) {
  const Ended ended = run(workers(3, "echo hello from $RANK"));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(log(0), "hello from 0\n");
  EXPECT_EQ(log(2), "hello from 2\n");
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "");
}

TEST_F(WorkerGroup, EchoCopiesOneLogWhole) {
  const Ended ended = run(workers(2, "echo one; echo two >&2; printf three", /*echoed=*/0));
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "one\ntwo\nthree\n");
}

TEST_F(WorkerGroup, FirstFailureIsReportedOnceWithItsErrorAndTheEndOfItsLog) {
  let_them_end();
  const Ended ended = run(workers(
      4,
      "if [ $RANK = 2 ]; then echo step 1; echo step 2; echo 'error: bad news'; touch $DIR/said; "
      "exit 5; fi; while ! [ -e $DIR/said ]; do sleep 0.05; done; sleep 0.3; echo 'error: peer "
      "lost'; exit 3"));
  EXPECT_EQ(ended.code, 5);
  EXPECT_THAT(ended.err, HasSubstr("rank 2 failed with exit code 5"));
  EXPECT_EQ(occurrences(ended.err, "error: bad news"), 1);
  EXPECT_THAT(ended.err, HasSubstr("step 2"));
  EXPECT_THAT(ended.err, HasSubstr(folder_ / "worker_2.log"));
  EXPECT_THAT(ended.err, Not(HasSubstr("peer lost")));
}

TEST_F(WorkerGroup, ALostPeerIsNotTheCause) {
  // Rank 0 notices first and leaves with 3; rank 1 is what is wrong.
  let_them_end();
  const Ended ended =
      run(workers(2,
                  "if [ $RANK = 1 ]; then while ! [ -e $DIR/left ]; do sleep 0.05; done; "
                  "sleep 0.4; echo 'error: mine'; exit 1; fi; touch $DIR/left; exit 3"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 failed with exit code 1"));
}

TEST_F(WorkerGroup, LinkFailureAloneIsReported) {
  let_them_end();
  const Ended ended = run(
      workers(2,
              "if [ $RANK = 1 ]; then while ! [ -e $DIR/left ]; do sleep 0.05; done; sleep 0.3; "
              "fi; touch $DIR/left; exit 3"));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("rank 0 failed with exit code 3"));
}

TEST_F(WorkerGroup, EchoedErrorAppearsOnceAndLast) {
  const Ended ended =
      run(workers(2,
                  "if [ $RANK = 0 ]; then echo working; echo 'error: broken' >&2; exit 4; fi; "
                  "sleep 10000",
                  /*echoed=*/0));
  EXPECT_EQ(ended.code, 4);
  EXPECT_EQ(ended.out, "working\n");
  EXPECT_EQ(occurrences(ended.out + ended.err, "error: broken"), 1);
  EXPECT_EQ(occurrences(ended.out + ended.err, "working"), 1);
}

TEST_F(WorkerGroup, AKilledWorkerIsCodeThreeAndTheOthersEnd) {
  options_.settle = std::chrono::milliseconds(300);
  options_.terminate = std::chrono::milliseconds(500);
  const Ended ended = run(
      workers(4,
              "if [ $RANK = 1 ]; then while ! [ -s $DIR/pid0 -a -s $DIR/pid2 -a -s $DIR/pid3 ]; do "
              "sleep 0.05; done; echo last words; kill -9 $$; fi; trap '' TERM; echo $$ > "
              "$DIR/pid$RANK; while :; do sleep 0.1; done"));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 was killed by signal 9"));
  EXPECT_THAT(ended.err, HasSubstr("last words"));
  for (const char* name : {"pid0", "pid2", "pid3"}) EXPECT_TRUE(gone(pid_in(name))) << name;
}

// The worker writes into its page what a rank does that computes and comes to no end: the first
// step and the one at hand, its work since the machine started, waits for nobody.
TEST_F(WorkerGroup, OneThatMakesNoProgressIsNamedWithItsWork) {
  options_.settle = std::chrono::milliseconds(100);
  options_.standstill = std::chrono::seconds(5);
  const std::string zeros = R"(\0\0\0\0\0\0\0)";
  const Ended ended = run(workers(2, "[ $RANK = 1 ] && printf '\\1" + zeros + "\\2" + zeros +
                                         R"(\4\0\0\0\5\0\0\0\1)" + zeros +
                                         "' 1<>$TESSERA_RANK_PAGE; exec sleep 10000"));
  EXPECT_EQ(ended.code, 3);
  EXPECT_THAT(ended.err, HasSubstr("rank 1 computes the forward of micro-batch 3 in step 2, waits "
                                   "for nobody and does not answer"));
}

TEST_F(WorkerGroup, WhatAWorkerStartedEndsWithIt) {
  const Ended ended = run(workers(1, "sleep 10000 & echo $! > $DIR/child; exit 7"));
  EXPECT_EQ(ended.code, 7);
  EXPECT_TRUE(gone(pid_in("child")));
}

TEST_F(WorkerGroup, ThoseThatEndByThemselvesAreNotDisturbed) {
  let_them_end();
  const Ended ended = run(
      workers(2,
              "trap 'echo disturbed; exit 9' TERM; if [ $RANK = 0 ]; then exit 5; fi; sleep 0.4; "
              "echo finished; exit 3"));
  EXPECT_EQ(ended.code, 5);
  EXPECT_EQ(log(1), "finished\n");
}

TEST_F(WorkerGroup, AProgramThatIsMissingIsNamed) {
  std::vector<Worker> list = workers(2, "sleep 10000");
  list[1].program.argv[0] = "/no/such/program";
  try {
    run(list);
    FAIL() << "started";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot start /no/such/program"));
  }
}

TEST_F(WorkerGroup, ALogThatCannotBeWrittenIsNamed) {
  std::vector<Worker> list = workers(1, "true");
  list[0].program.output = folder_ / "no/such/folder.log";
  EXPECT_THROW(run(list), ConfigError);
}

TEST_F(WorkerGroup, CoresAreBound) {
  std::vector<Worker> list = workers(1, "grep Cpus_allowed_list /proc/self/status");
  cpu_set_t ours;
  ASSERT_EQ(::sched_getaffinity(0, sizeof ours, &ours), 0);
  int first = 0;
  while (!CPU_ISSET(first, &ours)) ++first;
  list[0].program.cpus = {first};
  EXPECT_EQ(run(list).code, 0);
  EXPECT_THAT(log(0), HasSubstr("\t" + std::to_string(first) + "\n"));
}

// The signal arrives as from a user: at this process, while it waits.
class Interrupter {
 public:
  // `ready` is called in front of each signal, with its number.
  Interrupter(std::vector<int> signals, std::function<void(size_t)> ready)
      : thread_([signals = std::move(signals), ready = std::move(ready)] {
          sigset_t all;
          sigfillset(&all);
          pthread_sigmask(SIG_BLOCK, &all, nullptr);
          for (size_t i = 0; i < signals.size(); ++i) {
            ready(i);
            ::kill(::getpid(), signals[i]);
          }
        }) {}
  ~Interrupter() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST_F(WorkerGroup, ASignalIsForwardedAndTheStepEnds) {
  const std::vector<Worker> list =
      workers(2,
              "trap 'echo step done; exit 143' TERM; echo $$ > $DIR/pid$RANK; "
              "while :; do sleep 0.05; done");
  Interrupter user({SIGTERM}, [&](size_t) { pid_in("pid0"), pid_in("pid1"); });
  const Ended ended = run(list);
  EXPECT_EQ(ended.code, 128 + SIGTERM);
  EXPECT_THAT(log(0), HasSubstr("step done"));
  EXPECT_THAT(log(1), HasSubstr("step done"));
  EXPECT_EQ(occurrences(ended.err, "\n"), 1);  // one line
}

TEST_F(WorkerGroup, ASecondSignalKills) {
  const std::vector<Worker> list =
      workers(2,
              "trap 'echo 1 > $DIR/told$RANK' INT; echo $$ > $DIR/pid$RANK; "
              "while :; do sleep 0.05; done");
  Interrupter user({SIGINT, SIGINT}, [&](size_t signal) {
    const std::string file = signal == 0 ? "pid" : "told";  // the first has arrived
    pid_in(file + "0"), pid_in(file + "1");
  });
  const Ended ended = run(list);
  EXPECT_EQ(ended.code, 128 + SIGINT);
}

TEST_F(WorkerGroup, WorkersDieWithAKilledLauncher) {
  const std::vector<Worker> list =
      workers(2, "echo $$ > $DIR/pid$RANK; while :; do sleep 0.1; done");
  const pid_t launcher = ::fork();  // nothing else runs in this process
  if (launcher == 0) {
    run_worker_group(list, WorkerGroupOptions());
    ::_exit(0);
  }
  const pid_t first = pid_in("pid0");
  const pid_t second = pid_in("pid1");
  ASSERT_GT(first, 0);
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(gone(first));
  EXPECT_TRUE(gone(second));
}

}  // namespace
}  // namespace tessera
