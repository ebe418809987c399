#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/chat/chat_encoder.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {

/// Writes conversations as a token file and its mask: a conversation is a sequence, a row (one
/// conversation, or several that were packed) is a document. docs/data.md describes the files.
class RowWriter {
 public:
  /// `capacity`: tokens of a row; `pack`: conversations are put first-fit into rows, of which the
  /// fullest is written when too many are open.
  RowWriter(const std::string& prefix, TokenDtype dtype, int64_t capacity, bool pack);

  /// At most `capacity` tokens. Throws ConfigError on a full disk.
  void add(ChatTokens conversation);
  void finish();

  int64_t token_count() const { return tokens_.token_count(); }
  int64_t row_count() const { return tokens_.document_count(); }

 private:
  static constexpr size_t kOpenRows = 1024;
  struct Row {
    std::vector<ChatTokens> conversations;
    int64_t size = 0;
  };

  void write(const Row& row);

  int64_t capacity_;
  bool pack_;
  IndexedDatasetWriter tokens_;
  IndexedDatasetWriter mask_;
  std::list<Row> open_;  // oldest first
};

}  // namespace tessera
