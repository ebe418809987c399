#include "tessera/data/chat/row_packer.h"

#include <algorithm>

#include "tessera/data/mask_file.h"

namespace tessera {

RowWriter::RowWriter(const std::string& prefix, TokenDtype dtype, int64_t capacity, bool pack)
    : capacity_(capacity),
      pack_(pack),
      tokens_(prefix, dtype),
      mask_(mask_prefix(prefix), TokenDtype::kUInt8) {}

void RowWriter::add(ChatTokens conversation) {
  const auto size = static_cast<int64_t>(conversation.ids.size());
  if (!pack_) {
    Row row;
    row.conversations.push_back(std::move(conversation));
    write(row);
    return;
  }
  auto fits =
      std::ranges::find_if(open_, [&](const Row& row) { return row.size + size <= capacity_; });
  if (fits == open_.end()) {
    if (open_.size() == kOpenRows) {
      const auto fullest = std::ranges::max_element(open_, {}, &Row::size);
      write(*fullest);
      open_.erase(fullest);
    }
    fits = open_.insert(open_.end(), Row{});
  }
  fits->conversations.push_back(std::move(conversation));
  fits->size += size;
  if (fits->size == capacity_) {
    write(*fits);
    open_.erase(fits);
  }
}

void RowWriter::write(const Row& row) {
  for (const ChatTokens& conversation : row.conversations) {
    tokens_.add_sequence(conversation.ids);
    const std::vector<int32_t> mask(conversation.counts.begin(), conversation.counts.end());
    mask_.add_sequence(mask);
  }
  tokens_.end_document();
  mask_.end_document();
}

void RowWriter::finish() {
  for (const Row& row : open_) write(row);
  open_.clear();
  mask_.finish();  // first: a token file is never there without its mask
  tokens_.finish();
}

}  // namespace tessera
