#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/text/document_source.h"

namespace tessera {

struct TrainTokenizerOptions {
  DocumentSourceOptions source;
  std::string output;          // folder: tokenizer.json and tokenizer_config.json
  int64_t vocab_size = 32000;  // special tokens included; at least 256 and them
  // gpt2: as GPT-2 cuts text; digits1, digits3: as newer models do, with so many digits a word.
  std::string words = "digits3";
  std::vector<std::string> special = {"<|endoftext|>"};  // the first ends documents
};

struct TrainTokenizerReport {
  int64_t documents = 0;
  int64_t words = 0;       // different ones
  int64_t vocab_size = 0;  // less than asked where no pair is left that occurs twice
};

/// Makes a byte-level BPE of the inputs, which Hugging Face's `tokenizers` reads too. Memory: the
/// different words. Throws ConfigError, leaving no file: inputs that cannot be read, options that
/// cannot be.
TrainTokenizerReport train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace tessera
