// Saving and loading beside plain writing and reading of the same bytes on the same disk, in turns,
// and what a save behind the run costs the step that it goes on behind.
//
//   checkpoint_bench FOLDER [gigabytes = 2] [ranks = 2] [tokens of a step = 1024] [rounds = 3]
//
// The state is one weight matrix and two moments, float32, cut over the ranks. "plain" uses 1 MiB
// calls and one flush a file; everything is read after it was dropped from the page cache. A step
// is 6 x weights x tokens floating point operations in matrix products.

#include <ATen/ATen.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/saver.h"
#include "tessera/comm/threads/run_ranks.h"

namespace {

namespace fs = std::filesystem;
using namespace tessera;
constexpr int64_t kColumns = 4096;
constexpr uint64_t kPiece = 1 << 20;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void drop_from_cache(const fs::path& root) {
  // Old checkpoints go meanwhile.
  std::error_code gone;
  for (fs::recursive_directory_iterator at(root, gone), end; at != end; at.increment(gone)) {
    const int file = ::open(at->path().c_str(), O_RDONLY | O_NONBLOCK);
    if (file < 0) continue;
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

// Of this process, in MiB: "VmRSS" now, "VmHWM" the most since forget_peak().
double resident(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::atof(line.c_str() + field.size() + 1) / 1024;
  }
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

void plain_write(const fs::path& path, const char* bytes, uint64_t count) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (uint64_t at = 0; at < count; at += kPiece) {
    if (::write(file, bytes + at, std::min(kPiece, count - at)) < 0) std::abort();
  }
  ::fsync(file);
  ::close(file);
}

// Past the page cache: what the disk itself takes.
void direct_write(const fs::path& path, const char* bytes, uint64_t count) {
  constexpr uint64_t kBuffer = 2 << 20, kBlock = 4096;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT, 0600);
  auto* buffer = static_cast<char*>(std::aligned_alloc(kBlock, kBuffer));
  std::memcpy(buffer, bytes, std::min(kBuffer, count));  // written again and again
  for (uint64_t at = 0; at + kBlock <= count; at += kBuffer) {
    const uint64_t piece = std::min(kBuffer, (count - at) / kBlock * kBlock);
    if (::write(file, buffer, piece) < 0) std::abort();
  }
  std::free(buffer);
  ::fsync(file);
  ::close(file);
}

void plain_read(const fs::path& path, char* bytes, uint64_t count) {
  const int file = ::open(path.c_str(), O_RDONLY);
  for (uint64_t at = 0; at < count; at += kPiece) {
    const uint64_t piece = std::min(kPiece, count - at);
    if (::pread(file, bytes + at, piece, static_cast<off_t>(at)) < 0) std::abort();
  }
  ::close(file);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Rank 0 keeps what every measurement gave: seconds, and megabytes above what was held before.
struct Measured {
  std::map<std::string, std::vector<double>> seconds, megabytes;

  void print(double bytes, int ranks) const {
    for (const char* what : {"plain write", "direct write", "save", "plain read", "load"}) {
      const double rate = bytes / median(seconds.at(what)) / 1e6;
      std::printf("%-12s %7.0f MB/s, extra memory %6.1f MiB a rank\n", what, rate,
                  median(megabytes.at(what)) / ranks);
    }
    const auto ratio = [&](const char* a, const char* b) {
      return median(seconds.at(a)) / median(seconds.at(b));
    };
    std::printf("save / plain write  %.2f\nsave / direct write %.2f\nload / plain read   %.2f\n",
                ratio("plain write", "save"), ratio("direct write", "save"),
                ratio("plain read", "load"));
    std::printf(
        "step %.2f s; with a save behind it: copy %.2f s, step %.2f s, %.2f of a plain one\n",
        median(seconds.at("step")), median(seconds.at("copy")), median(seconds.at("step behind")),
        ratio("step behind", "step"));
  }
};

SaverOptions saver_options(const fs::path& root, bool async) {
  SaverOptions options;
  options.root = root;
  options.prefix = "checkpoint";
  options.optimizer = "AdamW";
  options.copies = false;
  options.keep = 1;
  options.async = async;
  options.hf_config = "{}\n";
  return options;
}

void measure(const ProcessGroup& world, const fs::path& root, int64_t rows, int64_t tokens,
             int rounds, Measured& measured) {
  ParallelDims dims;
  dims.world = dims.dp_shard = world.size();
  const DeviceMesh mesh(dims, world);
  ParamTable table;
  ShardedParam param;
  param.name = "weight";
  param.shape = {rows, kColumns};
  param.cuts = {{Axis::kFsdp, 0}};
  ShardedParam& row = table.add(std::move(param), mesh);
  row.value = at::ones(row.box.sizes, at::kFloat);
  const at::Tensor first = at::ones_like(row.value), second = at::ones_like(row.value);
  const OptimizerState state = {[&](size_t) {
    return std::vector<StateTensor>{{"exp_avg", first}, {"exp_avg_sq", second}};
  }};
  const auto timed = [&](const std::string& what, const std::function<void()>& work) {
    world.barrier();
    if (world.rank() == 0) forget_peak();
    world.barrier();
    const double before = resident("VmRSS");
    const double took = seconds_of([&] {
      work();
      world.barrier();
    });
    if (world.rank() != 0) return;
    measured.seconds[what].push_back(took);
    measured.megabytes[what].push_back(std::max(0.0, resident("VmHWM") - before));
  };
  const auto drop = [&] {
    world.barrier();
    if (world.rank() == 0) drop_from_cache(root);
  };
  const auto plain = [&](int i, int round) {
    return root / ("plain" + std::to_string(world.rank()) + "_" + std::to_string(i) + "_" +
                   std::to_string(round));
  };
  auto* memory = static_cast<char*>(row.value.mutable_data_ptr());

  CheckpointSaver saver(saver_options(root / "saved", false), table, state, mesh);
  LoadOptions load;
  load.path = (root / "saved").string();
  load.optimizer = "AdamW";
  ParamSpec spec;
  spec.name = "weight";
  spec.shape = {rows, kColumns};
  RunPosition position;
  // Which of two comes first changes from round to round, and both start with nothing of the other
  // in the page cache: the first finds blocks and memory that the second has to make.
  const auto in_turns = [&](int round, std::function<void()> first, std::function<void()> second) {
    if (round % 2 == 1) std::swap(first, second);
    first();
    drop();
    second();
    drop();
  };
  for (int round = 0; round < rounds; ++round) {
    ++position.step;
    in_turns(
        round,
        [&] {
          timed("plain write", [&] {
            for (int i = 0; i < 3; ++i) plain_write(plain(i, round), memory, row.value.nbytes());
          });
        },
        [&] { timed("save", [&] { saver.save(position); }); });
    // Like the checkpoint before: they go when their successors are there.
    for (int i = 0; i < 3; ++i) fs::remove(plain(i, round - 1));
    timed("direct write", [&] {
      for (int i = 0; i < 3; ++i) direct_write(plain(i, -2), memory, row.value.nbytes());
    });
    for (int i = 0; i < 3; ++i) fs::remove(plain(i, -2));
    drop();
    in_turns(
        round,
        [&] {
          timed("plain read", [&] {
            for (int i = 0; i < 3; ++i) plain_read(plain(i, round), memory, row.value.nbytes());
          });
        },
        [&] { timed("load", [&] { load_checkpoint(load, {spec}, table, state, mesh); }); });
  }
  for (int i = 0; i < 3; ++i) fs::remove(plain(i, rounds - 1));

  // Products of [tokens, 4096] and the ranks' part of the weights, three times: forward, and both
  // of the backward.
  const at::Tensor x = at::ones({tokens, kColumns});
  at::Tensor y = at::empty({tokens, row.value.size(0)});
  const auto step = [&] {
    for (int i = 0; i < 3; ++i) at::mm_out(y, x, row.value.t());
  };
  CheckpointSaver behind(saver_options(root / "async", true), table, state, mesh);
  timed("warm-up", step);
  for (int round = 0; round < rounds; ++round) {
    timed("step", step);
    ++position.step;
    timed("copy", [&] { behind.save(position); });
    timed("step behind", step);
    behind.complete();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "checkpoint_bench FOLDER [gigabytes] [ranks] [tokens] [rounds]\n");
    return 2;
  }
  const auto argument = [&](int index, double otherwise) {
    return argc > index ? std::atof(argv[index]) : otherwise;
  };
  const fs::path root = fs::path(argv[1]) / "checkpoint_bench";
  const auto ranks = static_cast<int>(argument(3, 2));
  const auto rows = static_cast<int64_t>(argument(2, 2) * 1e9 / 3 / 4 / kColumns) / ranks * ranks;
  fs::remove_all(root);
  fs::create_directories(root);
  Measured measured;
  run_ranks(ranks, [&](const ProcessGroup& world) {
    measure(world, root, rows, static_cast<int64_t>(argument(4, 1024)),
            static_cast<int>(argument(5, 3)), measured);
  });
  measured.print(3.0 * 4 * static_cast<double>(rows * kColumns), ranks);
  fs::remove_all(root);
  return 0;
}
