#pragma once

// `tessera generate` and `run_mode: predict`: prompts in, text out.

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/config/config.h"
#include "tessera/generate/generate.h"
#include "tessera/generate/prompts.h"

namespace tessera {

struct GenerationRun {
  Config config;                    // see generation_config
  std::string tokenizer;            // see make_tokenizer; empty: the one that lies with the weights
  std::optional<std::string> chat;  // see PromptEncoder
  std::vector<Prompt> prompts;      // none: lines of standard input, one after another
  GenerationOptions options;        // stop_tokens are completed
  std::vector<std::string> stop_texts;
  std::string output;     // a file (.jsonl, .json, .txt); empty: standard output
  bool as_lines = false;  // answers to standard output as lines of JSON, not as they come
};

/// One rank of it. Rank 0 reads, streams and writes. A prompt that cannot be asked (too long,
/// empty) is answered with its error, and the others go on. Throws ConfigError, CheckpointError.
void run_generation(const GenerationRun& run, const ProcessGroup& world);

}  // namespace tessera
