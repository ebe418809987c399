#pragma once

// Moments that are kept in codes, in a checkpoint: the codes are a tensor of bytes in the shape of
// the weight, the scales of their blocks one of float32 beside it. Of a weight [rows, columns]
// scales are [rows, columns / 256] where that is whole, else [blocks].

#include <string>
#include <vector>

#include "tessera/checkpoint/checkpoint_reader.h"
#include "tessera/checkpoint/stored_rows.h"

namespace tessera {

/// "exp_avg_scale", of "exp_avg".
std::string scale_slot(const std::string& slot);

/// The scales of a state tensor of `param` as a checkpoint holds them, views of `state.scales`. A
/// block belongs to the rank that has its first element: with `own` those of this rank, which
/// writes them; without, all that its part touches.
std::vector<StoredRow> scale_rows(const ShardedParam& param, const StateTensor& state, bool own);

/// Fills `out` ([box.sizes], any float type) with the numbers that a checkpoint holds in codes, for
/// a row of the weight (`row.box`, `row.shape`) under `row.name`; `scales` is the tensor of its
/// scales.
void read_coded_box(CheckpointReader& reader, const StoredTensor& codes, const StoredTensor& scales,
                    const StoredRow& row, bool is_signed);

}  // namespace tessera
