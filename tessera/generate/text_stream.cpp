#include "tessera/generate/text_stream.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr std::string_view kUnfinished = "\uFFFD";  // what a part of a character decodes to

// Bytes at the end of `text` that begin `stop`.
size_t begun(const std::string& text, const std::string& stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.ends_with(std::string_view(stop).substr(0, length))) return length;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop_texts)
    : tokenizer_(tokenizer), stop_texts_(std::move(stop_texts)) {}

bool TextStream::update(std::span<const int32_t> ids) {
  if (ended_) return true;
  text_ = tokenizer_.decode(ids, /*skip_special=*/true);
  size_t end = std::string::npos;
  for (const std::string& stop : stop_texts_) end = std::min(end, text_.find(stop));
  if (end == std::string::npos) return false;
  text_.resize(end);
  ended_ = true;
  return true;
}

std::string TextStream::take() {
  size_t end = text_.size();
  if (!ended_) {
    while (std::string_view(text_).substr(0, end).ends_with(kUnfinished)) end -= kUnfinished.size();
    size_t held = 0;
    for (const std::string& stop : stop_texts_) held = std::max(held, begun(text_, stop));
    end = std::min(end, text_.size() - held);
  }
  if (end <= shown_) return "";
  std::string part = text_.substr(shown_, end - shown_);
  shown_ = end;
  return part;
}

std::string TextStream::take_rest() {
  ended_ = true;
  return take();
}

}  // namespace tessera
