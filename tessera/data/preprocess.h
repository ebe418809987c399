#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/data/tokenizer.h"

namespace tessera {

struct PreprocessOptions {
  /// Files that end in .jsonl or .json: one document a line. All others: one document a file.
  std::vector<std::string> inputs;
  std::string output_prefix;      // writes <prefix>.bin and <prefix>.idx
  std::string json_key = "text";  // the field of a JSON line that holds the text
  bool append_eod = false;        // the tokenizer's EOD after every document
  int64_t workers = 1;            // threads; the output does not depend on it
};

struct PreprocessProgress {
  int64_t bytes_done = 0;  // of the inputs
  int64_t bytes_total = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
};

struct PreprocessReport {
  int64_t documents = 0;        // written
  int64_t empty_documents = 0;  // left out: no text
  int64_t tokens = 0;
  double seconds = 0.0;
};

/// Reads the inputs in order and writes one sequence a document; blank lines of a JSONL file are no
/// documents. `progress` is called from the calling thread, now and then and at the end.
/// Throws ConfigError, leaving no output: a file that cannot be read, a line that is no JSON object
/// or lacks the key (file and line), no EOD to append, no tokens at all, a full disk.
PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer,
                            const std::function<void(const PreprocessProgress&)>& progress = {});

/// A progress function that keeps one line with the time left on stderr, if that is a terminal;
/// else an empty function.
std::function<void(const PreprocessProgress&)> terminal_progress();

}  // namespace tessera
