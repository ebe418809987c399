#include "tessera/checkpoint/rank_files.h"

#include <ATen/ATen.h>

#include "tessera/checkpoint/coded_rows.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/checkpoint/safetensors.h"
#include "tessera/storage/iteration_folder.h"

namespace tessera {
namespace {

constexpr int64_t kPieceBytes = 64 << 20;  // what leaves a device at once

// "name" of a whole tensor, "name@16:32,0:64" of a part.
std::string name_in_file(const StoredRow& row) {
  if (row.box.sizes == row.shape) return row.name;
  std::string text = row.name;
  for (size_t d = 0; d < row.shape.size(); ++d) {
    text += d == 0 ? '@' : ',';
    text += std::to_string(row.box.offsets[d]);
    text += ':';
    text += std::to_string(row.box.offsets[d] + row.box.sizes[d]);
  }
  return text;
}

void append_in_pieces(SafetensorsWriter& writer, const at::Tensor& value) {
  const at::Tensor flat = value.reshape({-1});
  const int64_t piece = kPieceBytes / flat.element_size();
  for (int64_t at = 0; at < flat.numel(); at += piece) {
    writer.append(flat.narrow(0, at, std::min(piece, flat.numel() - at)));
  }
}

}  // namespace

RankFiles::RankFiles(const ParamTable& table, const OptimizerState& optimizer,
                     const RankFilesOptions& options, bool copy) {
  File model, state, copies;
  model.name = rank_file_name(options.prefix, "model", options.rank, options.world);
  state.name = rank_file_name(options.prefix, "opt", options.rank, options.world);
  state.state = true;
  copies.name = rank_file_name(options.prefix, "copies", options.rank, options.world);
  copies.copies = true;
  const auto add = [&](File& file, std::vector<StoredRow> rows) {
    for (StoredRow& row : rows) {
      if (copy) {
        row.value =
            at::empty(row.value.sizes(), row.value.options().device(at::kCPU)).copy_(row.value);
      }
      file.rows.push_back(std::move(row));
    }
  };
  const auto& params = table.params();
  for (size_t i = 0; i < params.size(); ++i) {
    const ShardedParam& param = *params[i];
    if (!param.primary && !options.copies) continue;
    if (options.adapters_only && !is_adapter(param.role)) continue;
    add(param.primary ? model : copies, stored_rows(param.name, param, param.value.detach()));
    if (!options.optimizer) continue;
    for (const StateTensor& tensor : optimizer.tensors(i)) {
      File& file = param.primary ? state : copies;
      add(file, stored_rows(state_name(tensor.slot, param.name), param, tensor.value));
      if (tensor.scales.defined()) add(file, scale_rows(param, tensor, /*own=*/true));
    }
  }
  for (File* file : {&model, &state, &copies}) {
    if (!file->rows.empty()) files_.push_back(std::move(*file));
  }
}

Manifest RankFiles::write(const std::filesystem::path& folder) const {
  Manifest fragment;
  for (const File& file : files_) {
    std::vector<SafetensorsEntry> entries;
    for (const StoredRow& row : file.rows) {
      SafetensorsEntry entry;
      entry.name = name_in_file(row);
      entry.dtype = element_type(row.value.scalar_type());
      entry.shape = row.box.sizes;
      entries.push_back(std::move(entry));
    }
    SafetensorsWriter writer(folder / file.name, std::move(entries), {{"format", "pt"}});
    const std::vector<uint64_t> offsets = writer.offsets();
    for (const StoredRow& row : file.rows) append_in_pieces(writer, row.value);
    writer.close();
    (file.copies ? fragment.copies : fragment.files)
        .push_back({file.name, writer.bytes_written(), writer.block_sums()});
    if (file.copies) continue;
    auto& tensors = file.state ? fragment.state : fragment.weights;
    for (size_t i = 0; i < file.rows.size(); ++i) {
      const StoredRow& row = file.rows[i];
      StoredTensor& tensor = tensors[row.name];
      tensor.dtype = element_type(row.value.scalar_type());
      tensor.shape = row.shape;
      tensor.parts.push_back({fragment.files.size() - 1, offsets[i], row.box});
    }
  }
  return fragment;
}

}  // namespace tessera
