#include "tessera/data/label_mask.h"

#include <filesystem>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/data/mask_file.h"

namespace tessera {

std::unique_ptr<const LabelMask> LabelMask::beside(const IndexedDataset& file) {
  const std::string prefix = mask_prefix(file.prefix());
  std::error_code error;
  if (!std::filesystem::exists(prefix + ".idx", error)) return nullptr;
  std::unique_ptr<const LabelMask> mask(new LabelMask(prefix));
  const IndexedDataset& other = mask->file_;
  if (other.dtype() != TokenDtype::kUInt8) {
    throw ConfigError(prefix + ".idx: a mask of labels must be uint8, not " +
                      to_string(other.dtype()));
  }
  const int64_t sequences = file.sequence_count();
  if (other.sequence_count() != sequences ||
      other.lengths_checksum(0, sequences) != file.lengths_checksum(0, sequences)) {
    throw ConfigError(detail::concat(prefix, ".idx: its sequences are not those of ", file.prefix(),
                                     ".idx (", other.sequence_count(), " with ",
                                     other.token_count(), " tokens, and ", sequences, " with ",
                                     file.token_count(), "): it masks another token file"));
  }
  return mask;
}

void LabelMask::read(int64_t sequence, int64_t offset, std::span<uint8_t> out) const {
  std::vector<int64_t> values(out.size());
  file_.read(sequence, offset, values);
  for (size_t i = 0; i < out.size(); ++i) out[i] = values[i] != 0;
}

}  // namespace tessera
