#include "tessera/comm/op_signature.h"

#include <c10/core/ScalarType.h>

#include <array>

namespace tessera {

const char* op_name(OpKind kind) {
  static constexpr std::array<const char*, 7> kNames = {
      "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "barrier", "split"};
  return kNames[static_cast<size_t>(kind)];
}

void OpSignature::add(const at::Tensor& tensor, bool with_rows) {
  words_.push_back(static_cast<int64_t>(tensor.scalar_type()));
  words_.push_back(tensor.dim());
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    words_.push_back(d == 0 && !with_rows ? -1 : tensor.size(d));
  }
}

std::string OpSignature::describe() const {
  constexpr int kShown = 4;
  std::string text = op_name(kind());
  if (words_[1] != 0) text += " (variant " + std::to_string(words_[1]) + ")";
  int shown = 0;
  for (size_t at = 2; at < words_.size(); ++shown) {
    if (shown == kShown) return text + ", ...";
    text += shown == 0 ? " of " : ", ";
    text += c10::toString(static_cast<c10::ScalarType>(words_[at]));
    text += " [";
    const int64_t dims = words_[at + 1];
    for (int64_t d = 0; d < dims; ++d) {
      const int64_t size = words_[at + 2 + d];
      if (d > 0) text += ", ";
      text += size < 0 ? "*" : std::to_string(size);
    }
    text += "]";
    at += 2 + dims;
  }
  return text;
}

}  // namespace tessera
