#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/config/family.h"

namespace tessera {

struct HfExportOptions {
  std::filesystem::path checkpoint;  // one, or the folder of several: what its pointer names
  std::filesystem::path output;      // must not exist, or be empty
  /// Of a run with low-rank adapters, one of the two: the adapters alone as PEFT's folder, or the
  /// model with them added to its weights.
  enum class Adapters { kNone, kAlone, kMerged };
  Adapters adapters = Adapters::kNone;
  std::filesystem::path base;       // that they belong to; empty: the run's base_load_path
  std::optional<DType> dtype;       // of all weights; nothing: as they are stored
  std::filesystem::path tokenizer;  // folder whose tokenizer files are copied; empty: the run's own
  FamilyTable families = builtin_families();  // that its model may be of
  uint64_t shard_bytes = 5'000'000'000;       // largest file, but for a tensor that is larger
};

/// Writes a checkpoint as a Hugging Face folder: config.json, model.safetensors (or shards and
/// their index), the tokenizer's files. The same bytes whatever layout saved it. The folder appears
/// whole. Returns what to tell the user. Throws CheckpointError, ConfigError.
std::string export_to_hf(const HfExportOptions& options);

}  // namespace tessera
