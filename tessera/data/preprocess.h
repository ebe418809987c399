#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/text/document_source.h"
#include "tessera/data/tokenizer.h"

namespace tessera {

/// What to do about a document that cannot be read.
enum class OnError {
  kStop,
  kSkip,  // leave it out, count it and write its place into <prefix>.skipped.jsonl
};

struct PreprocessOptions {
  DocumentSourceOptions source;
  std::string output_prefix;  // writes <prefix>.bin and <prefix>.idx
  bool append_eod = false;    // the tokenizer's EOD after every document
  bool add_special = false;   // what the tokenizer's template puts around a text, as BOS
  int64_t workers = 1;        // threads; the output does not depend on it
  OnError on_error = OnError::kStop;
};

struct PreprocessProgress {
  int64_t bytes_done = 0;              // of the inputs, as they are on disk
  std::optional<int64_t> bytes_total;  // unknown if an input is a pipe
  int64_t documents = 0;
  int64_t tokens = 0;
  bool finished = false;
};

struct PreprocessReport {
  int64_t documents = 0;                   // written
  int64_t empty_documents = 0;             // left out: no text
  int64_t skipped = 0;                     // left out: faults
  std::vector<std::string> first_skipped;  // at most five: "FILE:LINE: why"
  int64_t tokens = 0;
  double seconds = 0.0;
};

/// Path of the file that names what was left out.
std::string skipped_path(const std::string& output_prefix);

/// Reads the inputs in order and writes one sequence a document; blank lines of JSON lines are no
/// documents, and documents without text are left out (and written to the file of what was left
/// out, if faults are skipped). `progress` is called from the calling thread, now and then and at
/// the end. Throws ConfigError, leaving no output: an input that cannot be read or recognised, a
/// document with a fault unless faults are skipped (the first of the inputs' order), no EOD to
/// append, no tokens at all, a full disk.
PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer,
                            const std::function<void(const PreprocessProgress&)>& progress = {});

/// A progress function that keeps one line with the time left on stderr, if that is a terminal;
/// else an empty function.
std::function<void(const PreprocessProgress&)> terminal_progress();

}  // namespace tessera
