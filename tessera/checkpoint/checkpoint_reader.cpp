#include "tessera/checkpoint/checkpoint_reader.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tessera/storage/box_copy.h"
#include "tessera/storage/checkpoint_choice.h"

namespace tessera {
namespace {

constexpr int64_t kPieceBytes = 64 << 20;
constexpr size_t kOpenFiles = 64;  // at a time
constexpr uint64_t kSmallFile = 1 << 20;

}  // namespace

CheckpointReader::CheckpointReader(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {}

std::vector<std::string> CheckpointReader::check_files() const {
  std::vector<std::string> missing_copies = check_sizes(manifest_, folder_);
  for (const auto* files : {&manifest_.files, &manifest_.copies}) {
    for (const StoredFile& stored : *files) {
      const std::filesystem::path path = folder_ / stored.name;
      if (stored.bytes >= kSmallFile || !std::filesystem::exists(path)) continue;
      VerifiedFile(path, stored.bytes, stored.sums).verify();
    }
  }
  return missing_copies;
}

void CheckpointReader::verify() const {
  for (const auto* files : {&manifest_.files, &manifest_.copies}) {
    for (const StoredFile& stored : *files) {
      VerifiedFile(folder_ / stored.name, stored.bytes, stored.sums).verify();
    }
  }
}

VerifiedFile& CheckpointReader::file(size_t index) {
  auto found = open_.find(index);
  if (found == open_.end()) {
    if (open_.size() >= kOpenFiles) {
      read_by_closed_ = bytes_read();
      open_.clear();
    }
    const StoredFile& stored = manifest_.files[index];
    found = open_
                .emplace(index, std::make_unique<VerifiedFile>(folder_ / stored.name, stored.bytes,
                                                               stored.sums))
                .first;
  }
  return *found->second;
}

void CheckpointReader::read_in_place(const StoredTensor& tensor, const Box& box, char* out) {
  const int64_t element = size_of(tensor.dtype);
  int64_t filled = 0;
  for (const StoredPart& part : tensor.parts) {
    const auto common = intersection(part.box, box);
    if (!common) continue;
    VerifiedFile& source = file(part.file);
    for_each_run(*common, part.box, box, [&](int64_t from, int64_t to, int64_t count) {
      source.read(part.offset + static_cast<uint64_t>(from * element),
                  static_cast<uint64_t>(count * element), out + to * element);
    });
    filled += common->numel();
  }
  TESSERA_CHECK_EQ(filled, box.numel(), "elements read");
}

void CheckpointReader::read_box(const StoredTensor& tensor, const Box& box, at::Tensor out) {
  TESSERA_CHECK(out.sizes() == at::IntArrayRef(box.sizes), "box ", box.sizes, " into ",
                out.sizes());
  if (out.numel() == 0) return;
  const at::ScalarType stored = scalar_type(tensor.dtype);
  if (out.device().is_cpu() && out.is_contiguous() && out.scalar_type() == stored) {
    read_in_place(tensor, box, static_cast<char*>(out.mutable_data_ptr()));
    return;
  }
  if (box.sizes.empty()) {  // one number
    at::Tensor value = at::empty({}, at::TensorOptions().dtype(stored));
    read_in_place(tensor, box, static_cast<char*>(value.mutable_data_ptr()));
    out.copy_(value);
    return;
  }
  const int64_t element = size_of(tensor.dtype);
  const int64_t row_bytes = std::max<int64_t>(1, box.numel() / box.sizes[0] * element);
  const int64_t step = std::max<int64_t>(1, kPieceBytes / row_bytes);
  for (int64_t row = 0; row < box.sizes[0]; row += step) {
    Box piece = box;
    piece.offsets[0] += row;
    piece.sizes[0] = std::min(step, box.sizes[0] - row);
    at::Tensor values = at::empty(piece.sizes, at::TensorOptions().dtype(stored));
    read_in_place(tensor, piece, static_cast<char*>(values.mutable_data_ptr()));
    out.narrow(0, row, piece.sizes[0]).copy_(values);
  }
}

uint64_t CheckpointReader::bytes_read() const {
  uint64_t bytes = read_by_closed_;
  for (const auto& [index, file] : open_) bytes += file->bytes_read();
  return bytes;
}

}  // namespace tessera
