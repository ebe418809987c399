#pragma once

// manifest.json of a checkpoint: what the run was at, and where the parts of every tensor lie.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/box.h"
#include "tessera/storage/element_type.h"

namespace tessera {

/// What a run needs beside its tensors in order to go on.
struct RunPosition {
  int64_t step = 0;             // updates asked for so far
  int64_t samples = 0;          // trained on so far
  int64_t updates = 0;          // of the optimizer: steps without one label that counts make none
  int64_t effective_batch = 0;  // of the last update
  int64_t place = -1;           // reached in the passes over the data; -1: step x effective_batch
  int64_t skipped_in_row = 0;   // steps that were not finite, the last of them this one
  int64_t skipped = 0;          // of the whole run: the schedule is behind by them
  std::vector<std::pair<int64_t, int64_t>> skipped_ranges;  // place and count of their samples
  std::vector<std::pair<int64_t, int64_t>> left_out;        // samples that no update holds any more
  std::vector<double> norms;  // of the last steps that counted, where spikes are watched
  /// What the order of samples and the schedule depend on, as text by name; compared when a run is
  /// resumed.
  std::map<std::string, std::string> data;
  std::map<std::string, std::string> schedule;
  /// All that random numbers depend on, beside what each is for.
  std::map<std::string, std::string> random;
  std::map<std::string, std::string> layout;  // degrees, for readers

  bool operator==(const RunPosition&) const = default;
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::vector<uint64_t> sums;  // of its blocks
};

struct StoredPart {
  size_t file = 0;      // place in the list of files
  uint64_t offset = 0;  // byte of the file at which it starts; row-major
  Box box;
};

struct StoredTensor {
  ElementType dtype = ElementType::kF32;
  std::vector<int64_t> shape;
  std::vector<StoredPart> parts;  // tile the shape
};

struct Manifest {
  std::string version;  // of the program that wrote it
  RunPosition position;
  std::string config;        // the resolved YAML
  std::string optimizer;     // its type; empty: its state is not here
  std::string moment_dtype;  // optimizer.moment_dtype that its state is kept in
  int64_t moment_codec = 0;  // which codes an int8 state is in: kMomentCodec; 0: it has none
  std::string tokenizer;     // folder of the tokenizer that goes with the model, or empty
  std::string job;           // of the run that wrote it; empty: it was started without a launcher
  std::string base;        // fingerprint of the model whose adapters these are; empty: all is here
  int64_t generation = 0;  // which start of that run; 0: nobody counted
  std::vector<int64_t> kept;  // checkpoints of this run and those that it resumed, oldest first
  std::vector<int64_t> superseded;  // of those, what is removed once this one is pointed at
  std::vector<StoredFile> files;
  std::vector<StoredFile> copies;  // of replicas, which no load reads; and kModelConfigName
  std::map<std::string, StoredTensor> weights;  // Hugging Face names, an expert has its own
  std::map<std::string, StoredTensor> state;    // of the optimizer: "exp_avg.<name>", …
};

/// Of what int8 moments are written in: 2, a second moment is the code of its root. 1 was its own.
inline constexpr int64_t kMomentCodec = 2;

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kModelConfigName = "config.json";

/// With a checksum of itself at the end.
std::string manifest_text(const Manifest& manifest);

/// Throws CheckpointError that names `file` when the text is damaged, of an unknown form, or the
/// parts of a tensor do not tile it.
Manifest parse_manifest(const std::string& text, const std::filesystem::path& file);
Manifest read_manifest(const std::filesystem::path& folder);

/// checkpoint.base_load_path of the run that wrote it; empty: it had none.
std::string base_path_of(const Manifest& manifest);

/// What one rank adds: its files and parts.
std::string fragment_text(const Manifest& fragment);
void merge_fragment(Manifest& manifest, const std::string& text);

}  // namespace tessera
