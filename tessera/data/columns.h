#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/data/sample_source.h"

namespace tessera {

struct ColumnOptions {
  int64_t eod = -1;  // id that ends a document; -1: none
  int64_t pad = -1;  // id that is not learnt and enters the model as 0; -1 or equal to eod: none
  int64_t ignored = -100;  // a label of this id does not count; it enters the model as it is
  bool reset_position_ids = false;
  bool packed = false;          // attention stops at document ends
  bool eod_mask_loss = false;   // an EOD as input carries no loss
  bool add_extra_token = true;  // else labels are the tokens rotated left
};

/// One sample as the model sees it. Each array is [seq_length].
struct SampleColumns {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;  // labels[i] is the target of input_ids[i]; 0 where it was a pad
  std::vector<int64_t> position_ids;
  /// 1: the label at this place counts. Decided here and nowhere else: the loss, the number that
  /// scales it and the number that is reported all follow this mask.
  std::vector<uint8_t> loss_mask;
  std::vector<uint8_t> padded;  // 1: made up because the data ended, not read from a file
  /// Ends (exclusive) of the documents, ascending; the last is seq_length. {seq_length} when the
  /// sample is not packed.
  std::vector<int64_t> document_ends;
};

/// Columns of one sample, from `tokens` [seq_length + 1, or seq_length without the extra token], of
/// which the first `real` were read. Rules of megatron-core's GPTDataset; every sample is made
/// afresh, so nothing of one sample reaches another. `marks` say which tokens count as labels, and
/// where documents end: then positions restart there, and what was made up behind the last of
/// several is a document of its own.
SampleColumns make_columns(std::span<const int64_t> tokens, int64_t real,
                           const ColumnOptions& options, const SampleMarks& marks = {});

}  // namespace tessera
