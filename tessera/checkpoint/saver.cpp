#include "tessera/checkpoint/saver.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/agree.h"
#include "tessera/checkpoint/replica_text.h"
#include "tessera/comm/gather_text.h"
#include "tessera/storage/block_sums.h"
#include "tessera/storage/retention.h"

namespace tessera {
namespace {

// The steps that go on have the processors first. On Linux this holds for the calling thread alone.
void step_back() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10); }

void refuse_different_replicas(const ParamTable& table, const DeviceMesh& mesh, int64_t step) {
  const std::string differences = replica_text(check_replicas(table, mesh));
  if (differences.empty()) return;
  throw CheckpointError(detail::concat("step ", step, " is not saved: ", differences));
}

// Locks `root` for this start of the run. Where an older start still holds it, that one is kept
// from publishing first, and then it may take its time to end.
std::unique_ptr<FolderLock> take_folder(const std::filesystem::path& root,
                                        const Generation& generation,
                                        std::chrono::milliseconds patience) {
  const bool again = take_over(root, generation);
  auto lock =
      std::make_unique<FolderLock>(root, ::flock, again ? patience : std::chrono::milliseconds(0));
  write_generation(root, generation);
  return lock;
}

// Checkpoints in `root` that this run neither made nor goes on from.
void warn_of_others(const std::filesystem::path& root, const std::vector<int64_t>& kept) {
  std::string others;
  for (const int64_t step : list_iterations(root)) {
    if (std::ranges::find(kept, step) != kept.end()) continue;
    others.append(others.empty() ? "" : ", ").append(std::to_string(step));
  }
  if (others.empty()) return;
  log_warning(root.string() + ": also holds checkpoints that this run does not go on from (steps " +
              others + "): it removes none of them, and replaces those of the steps that it saves");
}

std::string summary(const Manifest& manifest, double seconds) {
  uint64_t bytes = 0;
  for (const auto* files : {&manifest.files, &manifest.copies}) {
    for (const StoredFile& file : *files) bytes += file.bytes;
  }
  char text[96];
  std::snprintf(text, sizeof(text), "%.1f MB in %.2f s", static_cast<double>(bytes) / 1e6, seconds);
  return text;
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaverOptions options, const ParamTable& table,
                                 OptimizerState optimizer, const DeviceMesh& mesh)
    : options_(std::move(options)), table_(table), optimizer_(std::move(optimizer)), mesh_(mesh) {
  const ProcessGroup& world = mesh_[Axis::kWorld];
  agree(world, [this] {
    if (mesh_.rank() != 0) return;
    lock_ = take_folder(options_.root, options_.generation, options_.patience);
    options_.kept = tidy_for_run(options_.root, options_.keep, std::move(options_.kept));
    warn_of_others(options_.root, options_.kept);
  });
  const std::string holder = broadcast_text(0, world, lock_ ? lock_->holder() : "");
  agree(world, [&] {
    if (FolderLock::is_held_by(options_.root, holder)) return;
    throw CheckpointError(detail::concat(
        "rank ", mesh_.rank(), " does not see what rank 0 wrote to ", options_.root.string(),
        ": checkpoint.save_path must be on storage that all "
        "nodes share"));
  });
}

CheckpointSaver::~CheckpointSaver() {
  if (!writing_.valid()) return;
  writing_.wait();
  std::error_code ignored;
  if (mesh_.rank() == 0) std::filesystem::remove_all(folder_, ignored);
}

void CheckpointSaver::save(const RunPosition& position) {
  if (pending()) complete();
  refuse_different_replicas(table_, mesh_, position.step);
  const ProcessGroup& world = mesh_[Axis::kWorld];
  started_ = std::chrono::steady_clock::now();
  position_ = position;
  folder_ = writing_folder(options_.root, position.step, options_.generation);
  RankFilesOptions files;
  files.prefix = options_.prefix;
  files.optimizer = !options_.optimizer.empty();
  files.copies = options_.copies;
  files.adapters_only = !options_.base.empty();
  files.rank = mesh_.rank();
  files.world = world.size();
  std::optional<RankFiles> rank_files;
  agree(world, [&] {
    rank_files.emplace(table_, optimizer_, files, options_.async);  // a copy may not fit
    if (mesh_.rank() != 0) return;
    if (removing_.valid()) removing_.get();
    folder_ = begin_iteration(options_.root, position_.step, options_.generation);
  });
  if (options_.async) {
    writing_ = std::async(std::launch::async, [this, rank_files = std::move(*rank_files)] {
      step_back();
      return write(rank_files);
    });
    return;
  }
  std::promise<std::string> done;
  writing_ = done.get_future();
  done.set_value(write(*rank_files));
  complete();
}

// "E" and the error, or "F" and the fragment. No exception leaves a thread behind the run.
std::string CheckpointSaver::write(const RankFiles& files) const {
  try {
    return std::string("F").append(fragment_text(files.write(folder_)));
  } catch (const std::exception& error) {
    return std::string("E") + error.what();
  }
}

bool CheckpointSaver::writing() const {
  return writing_.valid() &&
         writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointSaver::complete() {
  if (!pending()) return;
  const ProcessGroup& world = mesh_[Axis::kWorld];
  std::vector<std::string> fragments = gather_texts_to(0, world, writing_.get());
  agree(world, [&] {
    if (mesh_.rank() != 0) return;
    try {
      publish(fragments);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::remove_all(folder_, ignored);
      throw;
    }
  });
  newest_ = options_.root / iteration_name(position_.step);
}

void CheckpointSaver::publish(const std::vector<std::string>& fragments) {
  Manifest manifest;
  manifest.version = TESSERA_VERSION;
  manifest.position = position_;
  manifest.job = options_.generation.job;
  manifest.generation = options_.generation.number;
  manifest.config = options_.config;
  manifest.optimizer = options_.optimizer;
  manifest.base = options_.base;
  manifest.moment_dtype = options_.moment_dtype;
  manifest.moment_codec = options_.moment_dtype == "int8" ? kMomentCodec : 0;
  manifest.tokenizer = options_.tokenizer;
  for (const std::string& fragment : fragments) {
    if (!fragment.starts_with('F')) {
      throw CheckpointError("step " + std::to_string(position_.step) +
                            " is not saved: " + fragment.substr(1));
    }
    merge_fragment(manifest, fragment.substr(1));
  }
  const auto write_beside = [&](const std::string& name, const std::string& bytes) {
    BlockSums sums;
    sums.add(bytes.data(), bytes.size());
    manifest.copies.push_back({name, bytes.size(), sums.finish()});
    write_file_durably(folder_ / name, bytes);
  };
  write_beside(kModelConfigName, options_.hf_config);
  for (const auto& [name, bytes] : options_.tokenizer_files) write_beside(name, bytes);

  std::vector<int64_t> kept = options_.kept;
  std::erase(kept, position_.step);
  kept.push_back(position_.step);
  const auto surplus = static_cast<int64_t>(kept.size()) - options_.keep;
  const std::vector<int64_t> removed(kept.begin(), kept.begin() + std::max<int64_t>(0, surplus));
  kept.erase(kept.begin(), kept.begin() + static_cast<int64_t>(removed.size()));
  manifest.kept = kept;
  manifest.superseded = removed;
  write_file_durably(folder_ / kManifestName, manifest_text(manifest));

  publish_iteration(options_.root, position_.step, options_.generation);
  options_.kept = kept;
  if (!removed.empty()) {
    removing_ = std::async(std::launch::async, [root = options_.root, removed] {
      step_back();
      remove_iterations(root, removed);
    });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  log_info("saved " + (options_.root / iteration_name(position_.step)).string() + " (" +
           summary(manifest, seconds) + ")");
}

}  // namespace tessera
