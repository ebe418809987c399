// Rates of saving and loading beside those of the disk, and the memory they need.
//
//   checkpoint_bench FOLDER [gigabytes = 2] [ranks = 2]
//
// The state is one weight matrix and two moments a rank, float32. "plain" writes and reads the same
// bytes with 1 MiB calls and one flush at the end.

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/saver.h"
#include "tessera/dist/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using namespace tessera;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void drop_from_cache(const fs::path& root) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void plain_write(const fs::path& path, const char* bytes, uint64_t count) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (uint64_t at = 0; at < count; at += 1 << 20) {
    if (::write(file, bytes + at, std::min<uint64_t>(1 << 20, count - at)) < 0) std::abort();
  }
  ::fsync(file);
  ::close(file);
}

void plain_read(const fs::path& path, char* bytes, uint64_t count) {
  const int file = ::open(path.c_str(), O_RDONLY);
  for (uint64_t at = 0; at < count; at += 1 << 20) {
    if (::pread(file, bytes + at, std::min<uint64_t>(1 << 20, count - at), static_cast<off_t>(at)) <
        0) {
      std::abort();
    }
  }
  ::close(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "checkpoint_bench FOLDER [gigabytes] [ranks]\n");
    return 2;
  }
  const fs::path root = fs::path(argv[1]) / "checkpoint_bench";
  const double gigabytes = argc > 2 ? std::atof(argv[2]) : 2;
  const int ranks = argc > 3 ? std::atoi(argv[3]) : 2;
  constexpr int64_t kColumns = 4096;
  const auto rows = static_cast<int64_t>(gigabytes * 1e9 / 3 / 4 / kColumns) / ranks * ranks;
  const double bytes = 3.0 * 4 * static_cast<double>(rows * kColumns);
  fs::remove_all(root);
  fs::create_directories(root);

  run_ranks(ranks, [&](const ProcessGroup& world) {
    ParallelDims dims;
    dims.world = dims.dp_shard = world.size();
    const DeviceMesh mesh(dims, world);
    ParamTable table;
    ShardedParam param;
    param.name = "weight";
    param.shape = {rows, kColumns};
    param.cuts = {{"fsdp", 0}};
    ShardedParam& row = table.add(std::move(param), mesh);
    row.value = at::ones(row.box.sizes, at::kFloat);
    const at::Tensor first = at::ones_like(row.value), second = at::ones_like(row.value);
    const OptimizerState state = [&](size_t) {
      return std::vector<std::pair<std::string, at::Tensor>>{{"exp_avg", first},
                                                             {"exp_avg_sq", second}};
    };
    const auto report = [&](const char* what, double seconds) {
      if (world.rank() == 0) {
        std::printf("%-28s %7.3f s  %7.1f MB/s  peak %7.1f MB\n", what, seconds,
                    bytes / seconds / 1e6, peak_megabytes());
      }
    };
    const auto timed = [&](const std::function<void()>& work) {
      world.barrier();
      return seconds_of([&] {
        work();
        world.barrier();
      });
    };
    const fs::path plain = root / ("plain" + std::to_string(world.rank()));
    auto* memory = static_cast<char*>(row.value.mutable_data_ptr());
    report("state in memory", 1);
    for (int round = 0; round < 2; ++round) {
      report("plain write", timed([&] {
               for (int i = 0; i < 3; ++i) {
                 plain_write(plain.string() + std::to_string(i), memory, row.value.nbytes());
               }
             }));
      if (world.rank() == 0) drop_from_cache(root);
      report("plain read", timed([&] {
               for (int i = 0; i < 3; ++i) {
                 plain_read(plain.string() + std::to_string(i), memory, row.value.nbytes());
               }
             }));
      for (int i = 0; i < 3; ++i) fs::remove(plain.string() + std::to_string(i));

      SaverOptions options;
      options.root = root / "saved";
      options.prefix = "checkpoint";
      options.optimizer = "AdamW";
      options.copies = false;
      options.keep = 1;
      options.hf_config = "{}\n";
      RunPosition position;
      position.step = round + 1;
      CheckpointSaver saver(options, table, state, mesh);
      report("save", timed([&] { saver.save(position); }));
      if (world.rank() == 0) drop_from_cache(root);
      LoadOptions load;
      load.path = (root / "saved").string();
      load.optimizer = "AdamW";
      ParamSpec spec;
      spec.name = "weight";
      spec.shape = {rows, kColumns};
      report("load", timed([&] { load_checkpoint(load, {spec}, table, state, mesh); }));
    }
    SaverOptions behind;
    behind.root = root / "async";
    behind.async = true;
    behind.copies = false;
    behind.optimizer = "AdamW";
    RunPosition position;
    position.step = 9;
    CheckpointSaver saver(behind, table, state, mesh);
    report("async: until it returns", timed([&] { saver.save(position); }));
    report("async: until complete", timed([&] { saver.complete(); }));
  });
  fs::remove_all(root);
  return 0;
}
