// Checkpoints of thread ranks: any layout into any other, damage, replacement, asynchronous
// writing.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <random>

#include "tessera/base/error.h"
#include "tessera/checkpoint/agree.h"
#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/inspect.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/checkpoint/saver.h"
#include "tessera/comm/threads/run_ranks.h"
#include "tests/checkpoint/checkpoint_ranks.h"
#include "tests/comm/dims.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using test::dims_of;
using test::RankState;
using testing::HasSubstr;
using testing::IsEmpty;

RunPosition position_at(int64_t step) {
  RunPosition position;
  position.step = step;
  position.samples = 8 * step;
  position.updates = step;
  position.effective_batch = 8;
  position.data = {{"seed", "1234"}};
  return position;
}

SaverOptions options_for(const fs::path& root) {
  SaverOptions options;
  options.root = root;
  options.prefix = "checkpoint";
  options.optimizer = "AdamW";
  options.config = "training:\n  steps: 3\n";
  options.hf_config = "{}\n";
  return options;
}

// Every rank saves the state of each step in turn.
void save(const SaverOptions& options, const ParallelDims& dims, const std::vector<int64_t>& steps,
          at::ScalarType dtype = at::kDouble) {
  run_ranks(static_cast<int>(dims.world), [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims, world);
    RankState state(mesh, dtype);
    CheckpointSaver saver(options, state.table, state.optimizer(), mesh);
    for (const int64_t step : steps) {
      state.set(step);
      saver.save(position_at(step));
      state.set(-7);  // what is written later than at the step shows
    }
    saver.complete();
  });
}

LoadOptions load_options(const fs::path& path, const std::string& optimizer = "AdamW") {
  LoadOptions options;
  options.path = path.string();
  options.optimizer = optimizer;
  return options;
}

// Loads on every rank; returns the step that was found and fails on a wrong value.
int64_t load(const LoadOptions& options, const ParallelDims& dims,
             at::ScalarType dtype = at::kDouble) {
  int64_t step = 0;
  run_ranks(static_cast<int>(dims.world), [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims, world);
    RankState state(mesh, dtype);
    const LoadedCheckpoint loaded =
        load_checkpoint(options, test::model_of_entries(), state.table, state.optimizer(), mesh);
    EXPECT_THAT(state.wrong(loaded.manifest.position.step, !options.optimizer.empty()), IsEmpty());
    if (world.rank() == 0) step = loaded.manifest.position.step;
  });
  return step;
}

std::string error_of_load(const LoadOptions& options, const ParallelDims& dims) {
  try {
    load(options, dims);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void flip(const fs::path& path, uint64_t at, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1 << bit));
}

const std::vector<ParallelDims> kLayouts = {
    dims_of(1, 1, 1, 1, 1),    dims_of(1, 1, 3, 1, 1),    dims_of(1, 2, 2, 1, 1),
    dims_of(1, 1, 1, 1, 4),    dims_of(2, 1, 2, 1, 1),    dims_of(1, 2, 1, 1, 2, 2),
    dims_of(2, 1, 2, 1, 2, 4), dims_of(3, 1, 1, 1, 2, 2), dims_of(1, 1, 8, 1, 1, 2),
};

TEST(SaveAndLoad, EveryLayoutIntoEveryOther) {
  for (const ParallelDims& saved : kLayouts) {
    const test::TempDir root;
    save(options_for(root.path()), saved, {2});
    for (const ParallelDims& loaded : kLayouts) {
      SCOPED_TRACE(testing::Message() << saved.world << " ranks into " << loaded.world);
      EXPECT_EQ(load(load_options(root.path()), loaded), 2);
      LoadOptions balanced = load_options(root.path());
      balanced.balanced = true;
      EXPECT_EQ(load(balanced, loaded), 2);
    }
  }
}

TEST(SaveAndLoad, EveryDtypeIsKept) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const test::TempDir root;
    save(options_for(root.path()), dims_of(1, 1, 2, 1, 2), {1}, dtype);
    EXPECT_EQ(load(load_options(root.path()), dims_of(2, 1, 2, 1, 1), dtype), 1);
    EXPECT_EQ(CheckpointReader(root / "iteration_00000001").manifest().weights.at("norm").dtype,
              element_type(dtype));
  }
}

TEST(SaveAndLoad, AnyToolOpensTheFiles) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 2), {1});
  const SafetensorsFile file(root / "iteration_00000001" /
                             "checkpoint-model-0000001-0000002.safetensors");
  EXPECT_TRUE(at::equal(file.read("column@11:22,0:5"),
                        test::true_value("column", {22, 5}, 1, at::kDouble).narrow(0, 11, 11)));
  EXPECT_FALSE(file.entries().contains("whole"));  // the first rank writes what both hold
  EXPECT_TRUE(
      fs::exists(root / "iteration_00000001" / "checkpoint-opt-0000000-0000002.safetensors"));
  EXPECT_EQ(bytes_of(root / kPointerName), "1\n");
}

TEST(SaveAndLoad, EachBoxIsWrittenOnceAndCopiesApart) {
  const ParallelDims dims = dims_of(1, 2, 1, 1, 2);
  const test::TempDir once, copies;
  SaverOptions options = options_for(once.path());
  options.copies = false;
  save(options, dims, {1});
  save(options_for(copies.path()), dims, {1});
  const Manifest without = read_manifest(once / "iteration_00000001");
  const Manifest with = read_manifest(copies / "iteration_00000001");
  EXPECT_EQ(without.copies.size(), 1u);  // config.json
  EXPECT_EQ(with.copies.size(), 4u);
  for (const StoredFile& file : with.copies) {
    fs::remove(copies / "iteration_00000001" / file.name);
  }
  CheckpointReader reader(copies / "iteration_00000001");  // no load needs them
  at::Tensor value = at::empty({22, 5}, at::kDouble);
  reader.read_box(reader.manifest().weights.at("column"), {{0, 0}, {22, 5}}, value);
  EXPECT_TRUE(at::equal(value, test::true_value("column", {22, 5}, 1, at::kDouble)));
}

TEST(SaveAndLoad, WithoutTheStateOfTheOptimizer) {
  const test::TempDir root;
  SaverOptions options = options_for(root.path());
  options.optimizer.clear();
  save(options, dims_of(1, 1, 2, 1, 1), {3});
  EXPECT_EQ(load(load_options(root.path(), ""), dims_of(1, 1, 1, 1, 2)), 3);
  EXPECT_THAT(error_of_load(load_options(root.path()), dims_of(1, 1, 1, 1, 2)),
              HasSubstr("holds no state of an optimizer, the run needs that of AdamW"));
  save(options_for(root.path()), dims_of(1, 1, 2, 1, 1), {4});
  EXPECT_EQ(load(load_options(root.path(), ""), dims_of(1, 1, 1, 1, 1)), 4);
  EXPECT_THAT(error_of_load(load_options(root.path(), "SGD"), dims_of(1, 1, 1, 1, 2)),
              HasSubstr("holds the state of AdamW, the run needs that of SGD"));
}

TEST(SaveAndLoad, NamesWhatDoesNotFitTheModel) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1});
  std::vector<ParamSpec> model = test::model_of_entries();
  const Manifest manifest = read_manifest(root / "iteration_00000001");
  EXPECT_EQ(compare_with_model(manifest, model), "");
  model[0].name = "another";
  model[1].shape = {7, 13};
  const std::string report = compare_with_model(manifest, model);
  EXPECT_THAT(report, HasSubstr("missing (1): another"));
  EXPECT_THAT(report, HasSubstr("not in the model (1): column"));
  EXPECT_THAT(report, HasSubstr("row is [7, 12], the model has [7, 13]"));
}

TEST(SaveAndLoad, ReadsOnlyTheBlocksOfItsBoxes) {
  const test::TempDir root;
  constexpr int64_t kRows = 4096, kColumns = 512;  // 16 MiB of float64
  run_ranks(1, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 1, 1, 1), world);
    ParamTable table;
    ShardedParam param;
    param.name = "big";
    param.shape = {kRows, kColumns};
    table.add(std::move(param), mesh).value = at::rand({kRows, kColumns}, at::kDouble);
    SaverOptions options = options_for(root.path());
    options.optimizer.clear();
    const OptimizerState none = {[](size_t) { return std::vector<StateTensor>{}; }};
    CheckpointSaver saver(options, table, none, mesh);
    saver.save(position_at(1));
    CheckpointReader reader(root / "iteration_00000001");
    at::Tensor part = at::empty({kRows / 8, kColumns}, at::kDouble);
    reader.read_box(reader.manifest().weights.at("big"), {{kRows / 2, 0}, {kRows / 8, kColumns}},
                    part);
    EXPECT_TRUE(at::equal(part, table.params()[0]->value.narrow(0, kRows / 2, kRows / 8)));
    EXPECT_LE(reader.bytes_read(), (2u << 20) + 2 * kSumBlock);
  });
}

TEST(Saver, ReplicasThatDifferAreNotSaved) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 2, 1, 1, 2), {1});
  std::string error;
  try {
    run_ranks(4, [&](const ProcessGroup& world) {
      const DeviceMesh mesh(dims_of(1, 2, 1, 1, 2), world);
      RankState state(mesh, at::kDouble);
      CheckpointSaver saver(options_for(root.path()), state.table, state.optimizer(), mesh);
      state.set(2);
      if (world.rank() == 3) state.table.find("norm")->value[1] += 1e-9;
      saver.save(position_at(2));
    });
  } catch (const CheckpointError& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, HasSubstr("step 2 is not saved: the copies of norm along"));
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 1);
}

TEST(Saver, KeepsTheNewestAndRemovesOnlyItsOwn) {
  const test::TempDir root;
  SaverOptions options = options_for(root.path());
  save(options, dims_of(1, 1, 2, 1, 1), {1});  // of another run
  options.keep = 2;
  save(options, dims_of(1, 1, 2, 1, 1), {2, 3, 4, 5});
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(1, 4, 5));
  EXPECT_EQ(read_manifest(root / "iteration_00000005").kept, (std::vector<int64_t>{4, 5}));
  options.kept = {4, 5};  // as a run that resumes
  save(options, dims_of(1, 1, 2, 1, 1), {6});
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(1, 5, 6));
  options.keep = 1;
  options.kept = {5, 6};
  save(options, dims_of(1, 1, 2, 1, 1), {6});  // the same step again
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(1, 6));
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 6);
}

TEST(Saver, TwoRunsAtOnePlaceAreNoticed) {
  const test::TempDir root;
  run_ranks(1, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 1, 1, 1), world);
    RankState state(mesh, at::kDouble);
    CheckpointSaver first(options_for(root.path()), state.table, state.optimizer(), mesh);
    try {
      CheckpointSaver second(options_for(root.path()), state.table, state.optimizer(), mesh);
      ADD_FAILURE() << "two savers in one folder";
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("another run is saving there (process "));
    }
  });
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1});  // the lock is gone with its holder
  EXPECT_FALSE(fs::exists(root / ".lock"));
}

TEST(Saver, AFolderThatIsNotTheSameForAllRanksIsNoticed) {
  const test::TempDir root, other_disk;
  const FolderLock lock(root.path());
  EXPECT_THAT(lock.holder(), HasSubstr("process "));
  EXPECT_TRUE(FolderLock::is_held_by(root.path(), lock.holder()));
  EXPECT_FALSE(FolderLock::is_held_by(other_disk.path(), lock.holder()));
  const FolderLock same_process(other_disk.path());
  EXPECT_FALSE(FolderLock::is_held_by(other_disk.path(), lock.holder()));
}

TEST(Saver, SaysThatTheFolderHoldsCheckpointsOfAnotherRun) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1, 2, 3});
  SaverOptions options = options_for(root.path());
  options.kept = {1, 2};
  testing::internal::CaptureStderr();
  save(options, dims_of(1, 1, 1, 1, 1), {4});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("checkpoints that this run does not go on from (steps 3)"));
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(1, 2, 3, 4));
}

// Where a file system cannot exchange two names, the old one is moved aside before the new one gets
// its name; ended in between, the old one comes back.
TEST(Saver, AWholeOneThatWasMovedAsideComesBack) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {3});
  fs::rename(root / "iteration_00000003", root / "iteration_00000003.removing");
  fs::create_directories(root / "iteration_00000003.writing");
  EXPECT_THAT(remove_leftovers(root.path()), testing::ElementsAre("iteration_00000003.writing"));
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 3);
  fs::create_directories(root / "iteration_00000003.removing");  // beside its successor: goes
  EXPECT_EQ(remove_leftovers(root.path()).size(), 1u);
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 3);
}

TEST(Saver, RemovesWhatKilledRunsLeft) {
  const test::TempDir root;
  fs::create_directories(root / "iteration_00000007.writing");
  fs::create_directories(root / "iteration_00000003.removing");
  fs::create_directories(root / "mine.writing");
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {8});
  EXPECT_FALSE(fs::exists(root / "iteration_00000007.writing"));
  EXPECT_FALSE(fs::exists(root / "iteration_00000003.removing"));
  EXPECT_TRUE(fs::exists(root / "mine.writing"));
}

// Ended just before the manifest of what it removes is unlinked: that one does not come back.
TEST(Saver, AWholeOneThatWasBeingRemovedStaysRemoved) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {3, 4});
  fs::rename(root / "iteration_00000003", root / "iteration_00000003.removing");
  EXPECT_THAT(remove_leftovers(root.path()), testing::ElementsAre("iteration_00000003.removing"));
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(4));
}

// Ended between moving the pointer and removing the oldest: the next start removes it.
TEST(Saver, TheNextStartLeavesAsManyAsAreKept) {
  const test::TempDir root, before;
  SaverOptions options = options_for(root.path());
  options.keep = 2;
  save(options, dims_of(1, 1, 1, 1, 1), {1, 2});
  fs::copy(root / "iteration_00000001", before / "one", fs::copy_options::recursive);
  options.kept = {1, 2};
  save(options, dims_of(1, 1, 1, 1, 1), {3});
  fs::copy(before / "one", root / "iteration_00000001", fs::copy_options::recursive);
  const Manifest manifest = read_manifest(root / "iteration_00000003");
  EXPECT_THAT(manifest.superseded, testing::ElementsAre(1));
  options.kept = manifest.superseded;  // as a run that resumes
  options.kept.insert(options.kept.end(), manifest.kept.begin(), manifest.kept.end());
  testing::internal::CaptureStderr();
  save(options, dims_of(1, 1, 1, 1, 1), {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::Not(HasSubstr("does not go on from")));
  EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(2, 3));
}

TEST(Saver, AFileSystemWithoutLocksIsSaidOnceAndTaken) {
  for (auto* lock :
       {+[](int, int) { return errno = ENOLCK, -1; }, +[](int, int) { return errno = ENOSYS, -1; },
        +[](int, int) { return errno = EOPNOTSUPP, -1; }}) {
    const test::TempDir root;
    testing::internal::CaptureStderr();
    {
      const FolderLock held(root.path(), lock);
      EXPECT_TRUE(FolderLock::is_held_by(root.path(), held.holder()));
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("has no locks"), std::string::npos);
    EXPECT_EQ(said.find("has no locks"), said.rfind("has no locks"));
  }
  const test::TempDir root;
  EXPECT_THROW(FolderLock(root.path(), [](int, int) { return errno = EIO, -1; }), CheckpointError);
}

TEST(Saver, AsynchronousFilesAreTheSynchronousOnes) {
  const test::TempDir sync, async;
  const ParallelDims dims = dims_of(1, 2, 2, 1, 1);
  save(options_for(sync.path()), dims, {2, 4});
  SaverOptions options = options_for(async.path());
  options.async = true;
  save(options, dims, {2, 4});
  int compared = 0;
  for (const auto& entry : fs::recursive_directory_iterator(sync.path())) {
    if (!entry.is_regular_file()) continue;
    const fs::path other = async.path() / fs::relative(entry.path(), sync.path());
    EXPECT_EQ(bytes_of(entry.path()), bytes_of(other)) << other;
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

TEST(Saver, AnAsynchronousOneHasNoNameBeforeItIsComplete) {
  const test::TempDir root;
  run_ranks(2, [&](const ProcessGroup& world) {
    const DeviceMesh mesh(dims_of(1, 1, 2, 1, 1), world);
    RankState state(mesh, at::kDouble);
    SaverOptions options = options_for(root.path());
    options.async = true;
    options.keep = 1;
    CheckpointSaver saver(options, state.table, state.optimizer(), mesh);
    state.set(1);
    saver.save(position_at(1));
    EXPECT_TRUE(saver.pending());
    EXPECT_FALSE(fs::exists(root / "iteration_00000001"));
    state.set(2);
    saver.save(position_at(2));  // completes the first
    EXPECT_TRUE(fs::exists(root / "iteration_00000001" / kManifestName));
    saver.complete();
    EXPECT_FALSE(saver.pending());
  });
  EXPECT_FALSE(fs::exists(root / "iteration_00000001"));  // removed behind the run
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 2);
}

// A file size limit stands for a full disk: write() fails in the middle of a file.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(Saver, AFullDiskLeavesTheOldCheckpointAndNoHalfOne) {
  for (const bool async : {false, true}) {
    for (const rlim_t limit : {100, 1000, 3000}) {
      const test::TempDir root;
      SaverOptions options = options_for(root.path());
      options.async = async;
      options.keep = 1;
      save(options, dims_of(1, 1, 2, 1, 1), {1});
      std::string error;
      {
        const FileSizeLimit full(limit);
        try {
          save(options, dims_of(1, 1, 2, 1, 1), {2});
        } catch (const CheckpointError& caught) {
          error = caught.what();
        }
      }
      EXPECT_THAT(error, HasSubstr("cannot be written: File too large")) << limit;
      EXPECT_THAT(list_iterations(root.path()), testing::ElementsAre(1));
      EXPECT_FALSE(fs::exists(root / "iteration_00000002.writing"));
      EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 1);
    }
  }
}

TEST(Damage, EveryFlippedBitOfEveryFileIsFound) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 2, 1, 1), {1, 2});
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root / "iteration_00000002")) {
    files.push_back(entry.path());
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const fs::path& file = files[random() % files.size()];
    const uint64_t at = random() % fs::file_size(file);
    const int bit = static_cast<int>(random() % 8);
    flip(file, at, bit);
    const std::string error =
        error_of_load(load_options(root / "iteration_00000002"), dims_of(1, 1, 1, 1, 1));
    EXPECT_THAT(error, HasSubstr(file.string())) << "byte " << at << " of " << file;
    if (i % 20 == 0) {  // of several, the one before is taken
      EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 1) << file;
      EXPECT_THROW(inspect_folder(root / "iteration_00000002", true), CheckpointError);
    }
    flip(file, at, bit);
  }
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 2);
}

TEST(Damage, ShortenedAndMissingFilesAreNamed) {
  for (const bool shorten : {true, false}) {
    const test::TempDir root;
    save(options_for(root.path()), dims_of(1, 2, 2, 1, 1), {1, 2});
    const fs::path folder = root / "iteration_00000002";
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    for (const fs::path& file : files) {
      const std::string whole = bytes_of(file);
      if (shorten) {
        fs::resize_file(file, whole.size() - 1);
      } else {
        fs::remove(file);
      }
      if (!shorten && file.filename().string().starts_with("checkpoint-copies-")) {
        testing::internal::CaptureStderr();
        EXPECT_EQ(load(load_options(folder), dims_of(1, 1, 2, 1, 1)), 2);
        EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(file.string()));
        EXPECT_THAT(inspect_folder(folder, false), HasSubstr(file.string()));
      } else {
        EXPECT_THAT(error_of_load(load_options(folder), dims_of(1, 1, 2, 1, 1)),
                    HasSubstr(file.filename().string()));
        EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 2, 1, 1)), 1);
      }
      EXPECT_THROW(inspect_folder(folder, true), CheckpointError);
      std::ofstream(file, std::ios::binary) << whole;
    }
  }
}

TEST(Damage, APointerThatIsMissingOrWrongFindsTheNewest) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1, 2, 3});
  for (const char* text : {"", "x\n", "9\n", "-1\n", "99999999999999999999\n"}) {
    std::ofstream(root / kPointerName) << text;
    EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 3) << text;
  }
  fs::remove(root / kPointerName);
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 3);
  std::ofstream(root / kPointerName) << "2\n";  // followed, though there is a newer one
  EXPECT_EQ(load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)), 2);
}

TEST(Damage, ASlashAtTheEndChangesNothing) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1});
  const fs::path folder = root / "iteration_00000001";
  EXPECT_EQ(checkpoints_at(folder / "").folders, std::vector<fs::path>{folder});
  EXPECT_EQ(checkpoints_at(root / "").folders, std::vector<fs::path>{folder});
  fs::remove(folder / kManifestName);
  EXPECT_THAT(error_of_load(load_options(folder / ""), dims_of(1, 1, 2, 1, 1)),
              HasSubstr("this checkpoint is not complete"));
}

TEST(Damage, NothingSoundIsAnErrorThatListsAll) {
  const test::TempDir root;
  save(options_for(root.path()), dims_of(1, 1, 1, 1, 1), {1, 2});
  for (const int64_t step : {1, 2}) {
    flip(root / iteration_name(step) / "checkpoint-model-0000000-0000001.safetensors", 600, 3);
  }
  const std::string error = error_of_load(load_options(root.path()), dims_of(1, 1, 1, 1, 1));
  EXPECT_THAT(error, HasSubstr("no checkpoint is sound"));
  EXPECT_THAT(error, HasSubstr("iteration_00000001"));
  EXPECT_THAT(error, HasSubstr("iteration_00000002"));
}

TEST(Foreign, AMindFormersCheckpointIsNamed) {
  const test::TempDir root;
  const fs::path folder = root / "iteration_00000010";
  fs::create_directories(folder);
  std::ofstream(root / kPointerName) << "10";
  {
    SafetensorsWriter writer(
        folder / "checkpoint-model-0000000-0000001.safetensors",
        {{"decoder.layers.0.mlp.linear_fc1.weight", ElementType::kF32, {2, 2}}});
    writer.append(at::zeros({2, 2}));
    writer.close();
  }
  for (const fs::path& path : {root.path(), folder}) {
    EXPECT_THAT(error_of_load(load_options(path), dims_of(1, 1, 2, 1, 1)),
                HasSubstr("a checkpoint of MindFormers"));
  }
}

TEST(Agree, AnErrorOfTheFileSystemIsOneOfEveryRank) {
  const test::TempDir root;
  run_ranks(2, [&](const ProcessGroup& world) {
    EXPECT_THROW(agree(world,
                       [&] {
                         if (world.rank() == 1) fs::rename(root / "nothing", root / "b");
                       }),
                 CheckpointError);
  });
}

TEST(Foreign, AnEmptyFolderHoldsNoCheckpoint) {
  const test::TempDir root;
  EXPECT_THAT(error_of_load(load_options(root.path()), dims_of(1, 1, 1, 1, 1)),
              HasSubstr("holds no checkpoint and no Hugging Face weights"));
}

}  // namespace
}  // namespace tessera
