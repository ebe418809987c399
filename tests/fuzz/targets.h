#pragma once

// The readers of the program as functions of raw bytes. libFuzzer calls one of them in a program of
// its own (fuzz_main.cpp); replay_test.cpp calls all of them with the kept inputs.

#include <string_view>
#include <vector>

namespace tessera::fuzz {

/// A reader, fed with `input` whatever it holds. A ConfigError or CheckpointError is an answer.
/// Anything else that leaves the reader, a crash, or a hang is a fault.
struct Target {
  std::string_view name;  // also the folder of its kept inputs
  void (*run)(std::string_view input);
};

/// Every reader.
const std::vector<Target>& targets();

// A file of the configuration: read, judged, written and read again, planned where it is small.
void read_yaml(std::string_view input);
// `--set section.field=value`, one a line, over a good file.
void read_overrides(std::string_view input);
// config.json of a Hugging Face folder.
void read_config_json(std::string_view input);
// A file of weights: as it is, and as a header in front of as many bytes as its first two say.
void read_weights(std::string_view input);
// model.safetensors.index.json beside two files of weights, "a" and "b".
void read_weight_index(std::string_view input);
// manifest.json of a checkpoint: as it is, and with its checksum put right.
void read_manifest_text(std::string_view input);
// A token file's .idx: two bytes of length of the .bin, then the .idx.
void read_token_index(std::string_view input);
// What `tessera preprocess` is given: a text, JSON lines, something compressed.
void read_documents(std::string_view input);
// The command line of msrun, one argument a line.
void read_msrun_flags(std::string_view input);
// The arguments of the training script, one a line.
void read_script_arguments(std::string_view input);
// The variables of a process launcher, NAME=VALUE, one a line.
void read_environment(std::string_view input);

}  // namespace tessera::fuzz
