#pragma once

// The flags of the commands that tessera-engine carries out, stated once: the front reads and
// explains them, and starts the engine with what engine_arguments() writes; the engine reads that.

#include "tessera/launcher/flags/flags.h"

namespace tessera {

/// Of train and parity.
struct RunFlags {
  std::string config;
  std::optional<int64_t> ranks;  // of this process, as threads; none: as the environment says, or 1
  std::vector<std::string> overrides;  // "section.field=value"
  std::string plant;                   // a fault to inject; empty: none
};

struct TrainFlags : RunFlags {
  bool dry_run = false;
  std::string trace;  // a file for the timeline; empty: none
};

struct ParityFlags : RunFlags {
  int64_t steps = 3;
  std::string dtype = "float64";
  bool json = false;
};

struct ExportFlags {
  std::string checkpoint;
  std::string output;
  std::string dtype;      // empty: as the weights are stored
  std::string tokenizer;  // empty: the run's
  uint64_t shard_bytes = 5'000'000'000;
};

struct InspectFlags {
  std::string path;
  bool verify = false;
  std::optional<int64_t> eod;  // of token files, which the front reads
};

// The lists of flags; their targets are the members of the argument, which must outlive the list.
Flag config_flag(std::string& config);
Flag override_flag(std::vector<std::string>& overrides);
std::vector<Flag> flags_of(TrainFlags& flags);
std::vector<Flag> flags_of(ParityFlags& flags);
std::vector<Flag> flags_of(ExportFlags& flags);
std::vector<Flag> flags_of(InspectFlags& flags);

/// `tessera-engine <command> flags...`, with the path of the engine beside this program. Throws
/// ConfigError when that is missing.
std::vector<std::string> engine_command(const std::string& command, const std::vector<Flag>& flags);

}  // namespace tessera
