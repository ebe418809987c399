#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/data/chat/chat_encoder.h"
#include "tessera/data/preprocess.h"

namespace tessera {

/// What becomes of a conversation with more tokens than a row.
enum class TooLong { kCut, kDrop };

struct ChatOptions {
  DocumentSourceOptions source;  // json_key: the field of plain texts
  std::string output_prefix;     // writes <prefix>.{bin,idx} and <prefix>_mask.{bin,idx}
  int64_t seq_length = 0;        // a row has one token more; 0: no limit (not with packing)
  bool packing = false;          // several conversations a row, first-fit
  TooLong too_long = TooLong::kCut;
  int64_t workers = 1;  // threads; the output does not depend on it
  OnError on_error = OnError::kStop;
};

struct ChatReport {
  int64_t conversations = 0;  // written
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t counted = 0;  // tokens that count as labels
  int64_t cut = 0;
  int64_t dropped = 0;                            // too long
  int64_t without_answer = 0;                     // left out: nothing of them would count
  std::vector<std::string> first_without_answer;  // at most five: "FILE:LINE: why"
  int64_t skipped = 0;                            // faults
  std::vector<std::string> first_skipped;         // at most five
  double seconds = 0.0;
};

/// Lines for a person: what was left out, and where.
std::string left_out_text(const ChatReport& report);

/// Reads records of JSON lines (see read_conversation) or whole texts, and writes the ids and which
/// of them count. Throws ConfigError, leaving no output, as preprocess() does; and where no
/// conversation is left.
ChatReport preprocess_chat(const ChatOptions& options, const ChatEncoder& encoder,
                           const std::function<void(const PreprocessProgress&)>& progress = {});

/// Whether the first record of the first input is a conversation and not only a text. False where
/// the input is a pipe, which can be read only once.
bool holds_conversations(const DocumentSourceOptions& source);

}  // namespace tessera
