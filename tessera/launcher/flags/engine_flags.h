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

/// Of evaluate. The weights are those of model or checkpoint, if given, else of the file.
struct EvaluateFlags : RunFlags {
  std::string model;
  std::string checkpoint;
  std::string adapter;
  bool json = false;
};

struct ExportFlags {
  std::string checkpoint;
  std::string output;
  std::string dtype;      // empty: as the weights are stored
  std::string tokenizer;  // empty: the run's
  bool adapter = false;   // low-rank adapters alone
  bool merge = false;     // the model with its adapters added
  std::string base;       // that they belong to; empty: the run's
  uint64_t shard_bytes = 5'000'000'000;
};

/// Of generate. One of model, checkpoint and config is given.
struct GenerateFlags {
  std::string model;       // a Hugging Face folder
  std::string adapter;     // a folder of low-rank adapters of it
  std::string checkpoint;  // one, or the folder of several
  std::string config;      // a file whose checkpoint.load_path names the weights
  std::vector<std::string> overrides;
  std::optional<int64_t> ranks;
  std::string prompt;
  std::string input;  // a file of prompts
  std::string output;
  std::string chat;       // a chat template's name
  std::string tokenizer;  // empty: the one beside the weights
  std::string dtype = "float32";
  int64_t max_new_tokens = 50;
  int64_t batch_size = 8;
  double temperature = 0.0;
  int64_t top_k = 0;
  double top_p = 1.0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
  int64_t seed = 42;
  std::vector<std::string> stop;
};

struct CalibrateFlags {
  std::string output;         // empty: the default place
  std::string worker_result;  // of a process that measures with others: its file
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
std::vector<Flag> flags_of(EvaluateFlags& flags);
std::vector<Flag> flags_of(ExportFlags& flags);
std::vector<Flag> flags_of(InspectFlags& flags);
std::vector<Flag> flags_of(CalibrateFlags& flags);
std::vector<Flag> flags_of(GenerateFlags& flags);

/// `tessera-engine <command> flags...`, with the path of the engine beside this program. Throws
/// ConfigError when that is missing.
std::vector<std::string> engine_command(const std::string& command, const std::vector<Flag>& flags);

}  // namespace tessera
