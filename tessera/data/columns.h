#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

struct ColumnOptions {
  int64_t eod = -1;  // id that ends a document; -1: none
  int64_t pad = -1;  // id that is not learnt and enters the model as 0; -1 or equal to eod: none
  bool reset_position_ids = false;
  bool reset_attention_mask = false;        // attention stops at document ends
  bool create_compressed_eod_mask = false;  // the same, told as document ends
  bool eod_mask_loss = false;               // an EOD as input carries no loss
  bool add_extra_token = true;              // else labels are the tokens rotated left

  /// Whether attention stops at document ends. The two switches mean the same thing here: no dense
  /// mask is ever made.
  bool packed() const { return reset_attention_mask || create_compressed_eod_mask; }
};

/// One sample as the model sees it. Each array is [seq_length].
struct SampleColumns {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;  // labels[i] is the target of input_ids[i]; 0 where it was a pad
  std::vector<int64_t> position_ids;
  std::vector<uint8_t> loss_mask;  // 1: the label at this place counts
  std::vector<uint8_t> padded;     // 1: made up because the data ended, not read from a file
  /// Ends (exclusive) of the documents, ascending; the last is seq_length. {seq_length} when the
  /// sample is not packed.
  std::vector<int64_t> document_ends;
};

/// Columns of one sample, from `tokens` [seq_length + 1, or seq_length without the extra token], of
/// which the first `real` were read. Rules of megatron-core's GPTDataset; every sample is made
/// afresh, so nothing of one sample reaches another.
SampleColumns make_columns(std::span<const int64_t> tokens, int64_t real,
                           const ColumnOptions& options);

}  // namespace tessera
