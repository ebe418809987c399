// Ranks as processes: saved by four, resumed by two and by eight.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "tessera/storage/iteration_folder.h"
#include "tests/support/case_path.h"
#include "tests/support/child_process.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_dir.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

int free_port() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(listener);
  return ntohs(address.sin_port);
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void train_processes(int world, const fs::path& folder, std::vector<std::string> set) {
  set.push_back("checkpoint.enable_save=true");
  set.push_back("checkpoint.save_path='" + (folder / "saved").string() + "'");
  set.push_back("output_dir='" + (folder / "out").string() + "'");
  std::vector<std::string> arguments = {"train", "--config",
                                        (case_path("llama_adamw64") / "config.yaml").string()};
  for (const std::string& item : set) {
    arguments.emplace_back("--set");
    arguments.push_back(item);
  }
  const std::string port = std::to_string(free_port());
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(std::make_unique<ChildProcess>(
        bin_dir() / "tessera-engine", arguments, folder / ("log" + std::to_string(rank)),
        std::vector<std::string>{
            "RANK=" + std::to_string(rank), "LOCAL_RANK=" + std::to_string(rank),
            "WORLD_SIZE=" + std::to_string(world), "LOCAL_WORLD_SIZE=" + std::to_string(world),
            "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "TESSERA_JOB_ID=checkpoint" + port,
            "OMP_NUM_THREADS=1"}));
  }
  for (int rank = 0; rank < world; ++rank) {
    EXPECT_EQ(ranks[static_cast<size_t>(rank)]->wait(), 0)
        << text_of(folder / ("log" + std::to_string(rank)));
  }
}

void expect_reference_losses(const fs::path& output, size_t first) {
  const auto expected = read_json_lines(case_path("llama_adamw64") / "expected.jsonl");
  const auto lines = read_json_lines(output / "metrics.jsonl");
  ASSERT_EQ(lines.size(), expected.size() - first);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].at("step"), first + i + 1);
    EXPECT_NEAR_REL(lines[i].at("loss").get<double>(), expected[first + i].at("loss").get<double>(),
                    1e-9);
  }
}

TEST(CheckpointProcesses, SavedByFourAndResumedByTwoAndByEight) {
  const TempDir folder;
  for (const char* name : {"four", "two", "eight"}) fs::create_directories(folder / name);
  train_processes(4, folder / "four",
                  {"parallelism.tensor_parallel=2", "parallelism.data_parallel_shard=2",
                   "training.local_batch_size=1", "checkpoint.async_save=true",
                   "checkpoint.save_interleaved_steps=8"});
  expect_reference_losses(folder / "four" / "out", 0);
  const std::string load =
      "checkpoint.load_path='" + (folder / "four" / "saved" / iteration_name(8)).string() + "'";
  train_processes(2, folder / "two",
                  {"parallelism.data_parallel_shard=2", "training.local_batch_size=1",
                   "checkpoint.no_load_optim=false", load});
  expect_reference_losses(folder / "two" / "out", 8);
  train_processes(
      8, folder / "eight",
      {"parallelism.data_parallel_shard=4", "training.local_batch_size=1",
       "parallelism.pipeline_parallel=2", "parallelism.pipeline_parallel_layers_per_stage=auto",
       "checkpoint.load_balanced=true", "checkpoint.no_load_optim=false", load});
  expect_reference_losses(folder / "eight" / "out", 8);
}

}  // namespace
}  // namespace tessera::test
