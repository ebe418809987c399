#include "tessera/data/columns.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera {

SampleColumns make_columns(std::span<const int64_t> tokens, int64_t real,
                           const ColumnOptions& options, const SampleMarks& marks) {
  TESSERA_CHECK(tokens.size() > 1 && real >= 0 && real <= static_cast<int64_t>(tokens.size()));
  const size_t s = tokens.size() - (options.add_extra_token ? 1 : 0);
  const auto read = static_cast<size_t>(real);
  // A pad id that also ends documents marks nothing: EODs of the data must be learnt.
  const bool has_pad = options.pad >= 0 && options.pad != options.eod;
  const auto is_pad = [&](size_t i) { return i >= read || (has_pad && tokens[i] == options.pad); };
  const auto is_eod = [&](size_t i) {
    return options.eod >= 0 && i < read && tokens[i] == options.eod;
  };

  // Marked documents end there alone; one that stands by itself keeps what was made up behind it.
  const bool marked = !marks.document_ends.empty();
  const bool several = marks.document_ends.size() > 1;
  size_t next_end = 0;
  const auto ends_document = [&](size_t i) {
    if (!marked) return is_eod(i);
    if (next_end == marks.document_ends.size() ||
        static_cast<int64_t>(i) + 1 != marks.document_ends[next_end]) {
      return false;
    }
    ++next_end;
    return several;
  };

  SampleColumns columns;
  columns.input_ids.resize(s);
  columns.labels.resize(s);
  columns.position_ids.resize(s);
  columns.loss_mask.resize(s);
  columns.padded.resize(s);
  int64_t position = 0;
  for (size_t i = 0; i < s; ++i) {
    // Without the extra token the last place has no label.
    const bool no_label = i + 1 >= tokens.size() || is_pad(i + 1);
    columns.input_ids[i] = is_pad(i) ? 0 : tokens[i];
    columns.labels[i] = no_label ? 0 : tokens[i + 1];
    columns.loss_mask[i] = !no_label && tokens[i + 1] != options.ignored &&
                           !(options.eod_mask_loss && is_eod(i)) &&
                           (marks.counts.empty() || marks.counts[i + 1] != 0);
    columns.padded[i] = i >= read;
    columns.position_ids[i] = position++;
    if (!ends_document(i)) continue;
    if (options.reset_position_ids || marked) position = 0;
    if (options.packed && i + 1 < s) columns.document_ends.push_back(static_cast<int64_t>(i) + 1);
  }
  columns.document_ends.push_back(static_cast<int64_t>(s));
  return columns;
}

}  // namespace tessera
