#include "tessera/checkpoint/coded_rows.h"

#include <ATen/ATen.h>

#include "tessera/layout/updates/moment_batches.h"
#include "tessera/nn/kernels/moment_codes.h"
#include "tessera/storage/name_lists.h"

namespace tessera {
namespace {

int64_t blocks_of(int64_t elements) { return largest_part(elements, kMomentBlock); }

// Those of a part of one matrix of `shape`.
std::vector<StoredRow> rows_of_matrix(const std::string& name, const std::vector<int64_t>& shape,
                                      const Box& box, const at::Tensor& scales, bool own) {
  const int64_t columns = shape[1];
  const int64_t first = box.offsets[1], end = first + box.sizes[1];
  if (columns % kMomentBlock == 0) {
    const int64_t touched = first / kMomentBlock;
    const int64_t last = blocks_of(end);
    const int64_t begin = own ? blocks_of(first) : touched;
    if (begin >= last) return {};
    return {{name,
             {shape[0], columns / kMomentBlock},
             {{box.offsets[0], begin}, {box.sizes[0], last - begin}},
             scales.view({box.sizes[0], last - touched}).narrow(1, begin - touched, last - begin)}};
  }
  std::vector<StoredRow> rows;
  for (const BlockRun& run : matrix_blocks(columns, box).runs) {
    const int64_t touched = run.first / kMomentBlock;
    const int64_t begin = own ? blocks_of(run.first) : touched;
    const int64_t last = blocks_of(run.first + run.length);
    if (begin >= last) continue;
    rows.push_back({name,
                    {blocks_of(shape[0] * columns)},
                    {{begin}, {last - begin}},
                    scales.narrow(0, run.block + begin - touched, last - begin)});
  }
  return rows;
}

}  // namespace

std::string scale_slot(const std::string& slot) { return slot + "_scale"; }

std::vector<StoredRow> scale_rows(const ShardedParam& param, const StateTensor& state, bool own) {
  if (state.value.numel() == 0) return {};
  const std::string name = state_name(scale_slot(state.slot), param.name);
  if (param.shape.size() < 3) {
    return rows_of_matrix(name, param.shape, param.box, state.scales, own);
  }
  std::vector<StoredRow> rows;
  const std::vector<int64_t> shape(param.shape.begin() + 1, param.shape.end());
  const int64_t each = state.scales.numel() / param.box.sizes[0];
  for (int64_t i = 0; i < param.box.sizes[0]; ++i) {
    for (StoredRow& row :
         rows_of_matrix(with_expert(name, param.box.offsets[0] + i), shape, matrix_box(param.box),
                        state.scales.narrow(0, i * each, each), own)) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void read_coded_box(CheckpointReader& reader, const StoredTensor& codes, const StoredTensor& scales,
                    const StoredRow& row, bool is_signed) {
  const MatrixBlocks blocks = matrix_blocks(row.shape[1], row.box);
  const at::Tensor code = at::empty(row.box.sizes, at::kByte);
  reader.read_box(codes, row.box, code);
  const at::Tensor scale = at::empty({blocks.count}, at::kFloat);
  for (const StoredRow& part : rows_of_matrix("", row.shape, row.box, scale, /*own=*/false)) {
    reader.read_box(scales, part.box, part.value);
  }
  const at::Tensor numbers = at::empty(row.box.sizes, at::kFloat);
  decode_moments(code, blocks, scale, is_signed, numbers);
  at::Tensor out = row.value;
  out.copy_(numbers);
}

}  // namespace tessera
