#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/data/records/record_handlers.h"

namespace tessera {

/// What an HFDataLoader reads, and how rows are made of it.
struct RowsOptions {
  std::string kind;                // json, csv, text
  std::vector<std::string> files;  // absolute paths
  std::vector<RecordHandler> handlers;
  std::string tokenizer;
  std::string chat_template;  // empty: as the tokenizer's folder says
  bool packing = false;
  bool drop_too_long = false;  // else cut
  int64_t seq_length = 0;
  int64_t size = 0;        // records read at most; 0: all
  int64_t vocab_size = 0;  // of the model; 0: not checked
  std::string cache_dir;   // empty: cache_folder()
};

/// Where rows are kept if no folder is named: $XDG_CACHE_HOME/tessera, ~/.cache/tessera, or a
/// folder in /tmp of this user.
std::string cache_folder();

/// The prefix of a token file of rows with its mask, made of the records if it is not in the cache
/// yet: the cache is keyed by the bytes of the files, the tokenizer and the options. One process
/// makes it, others on the host wait. Throws ConfigError,
/// leaving nothing: a file that cannot be read, a record that is none, a tokenizer that is larger
/// than the model's vocabulary.
std::string make_rows(const RowsOptions& options);

}  // namespace tessera
