#pragma once

// The text of an answer as it grows. No torch here.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/tokenizer.h"

namespace tessera {

class TextStream {
 public:
  /// `stop_texts` end the answer, which is cut in front of the first of them.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_texts);

  /// All ids of the answer so far. True: a stop text is there, and the text ends.
  bool update(std::span<const int32_t> ids);

  /// What can be shown now and was not yet: whole characters, and nothing that may become a stop
  /// text.
  std::string take();
  /// The rest, once the answer has ended.
  std::string take_rest();
  /// The whole text so far.
  const std::string& text() const { return text_; }

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_texts_;
  std::string text_;
  size_t shown_ = 0;
  bool ended_ = false;
};

}  // namespace tessera
