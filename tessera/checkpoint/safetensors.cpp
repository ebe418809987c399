#include "tessera/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/checkpoint/element_scalar.h"

namespace tessera {

namespace {

// Runs of a box that lie closer together than this are read in one go with what is between them.
constexpr uint64_t kGapWorthReading = 16 * 1024;
constexpr uint64_t kReadBuffer = 4 * 1024 * 1024;

std::string reason() { return std::strerror(errno); }

std::string to_text(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  }
  return text + "]";
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : SafetensorsFile(read_safetensors_header(path)) {}

SafetensorsFile::SafetensorsFile(SafetensorsHeaderFile header) : header_(std::move(header)) {
  descriptor_ = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw CheckpointError(path().string() + ": cannot be opened: " + reason());
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : header_(std::move(other.header_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

const SafetensorsEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = header_.entries.find(name);
  if (found == header_.entries.end())
    throw CheckpointError(path().string() + ": no tensor '" + name + "'");
  return found->second;
}

void SafetensorsFile::read_bytes(uint64_t offset, uint64_t count, char* out,
                                 const std::string& what) const {
  while (count > 0) {
    const ssize_t got = ::pread(descriptor_, out, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw CheckpointError(path().string() + ": " + what +
                            " cannot be read: " + (got == 0 ? "the file ends early" : reason()));
    }
    out += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const SafetensorsEntry& found = entry(name);
  return read_box(name, {std::vector<int64_t>(found.shape.size(), 0), found.shape});
}

at::Tensor SafetensorsFile::read_box(const std::string& name, const Box& box) const {
  const SafetensorsEntry& found = entry(name);
  const std::vector<int64_t>& shape = found.shape;
  bool inside = box.offsets.size() == shape.size() && box.sizes.size() == shape.size();
  for (size_t dim = 0; inside && dim < shape.size(); ++dim) {
    inside = box.offsets[dim] >= 0 && box.sizes[dim] >= 0 &&
             box.offsets[dim] <= shape[dim] - box.sizes[dim];
  }
  if (!inside) {
    throw CheckpointError(path().string() + ": '" + name + "' of shape " + to_text(shape) +
                          " has no part " + to_text(box.sizes) + " at " + to_text(box.offsets));
  }
  at::Tensor out = at::empty(box.sizes, at::TensorOptions().dtype(scalar_type(found.dtype)));
  if (out.numel() == 0) return out;

  const uint64_t element = static_cast<uint64_t>(size_of(found.dtype));
  uint64_t run = element;       // bytes that lie together in the file
  size_t outer = shape.size();  // dimensions [0, outer) count the runs
  while (outer > 0) {
    --outer;
    run *= static_cast<uint64_t>(box.sizes[outer]);
    if (box.sizes[outer] != shape[outer]) break;
  }
  const uint64_t runs = static_cast<uint64_t>(out.numel()) * element / run;
  const auto offset_of_run = [&](uint64_t r) {
    uint64_t flat = 0;
    uint64_t stride = 1;
    for (size_t dim = shape.size(); dim-- > 0;) {
      auto index = static_cast<uint64_t>(box.offsets[dim]);
      if (dim < outer) {
        index += r % static_cast<uint64_t>(box.sizes[dim]);
        r /= static_cast<uint64_t>(box.sizes[dim]);
      }
      flat += index * stride;
      stride *= static_cast<uint64_t>(shape[dim]);
    }
    return header_.data_start + found.begin + flat * element;
  };

  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const std::string what = "'" + name + "'";
  std::vector<char> buffer;
  for (uint64_t r = 0; r < runs;) {
    const uint64_t begin = offset_of_run(r);
    uint64_t end = begin + run;
    uint64_t last = r + 1;  // runs [r, last) are read in one go
    for (; last < runs; ++last) {
      const uint64_t next = offset_of_run(last);
      if (next - end > kGapWorthReading || next + run - begin > kReadBuffer) break;
      end = next + run;
    }
    if (last == r + 1) {
      read_bytes(begin, run, to, what);
    } else {
      buffer.resize(end - begin);
      read_bytes(begin, end - begin, buffer.data(), what);
      for (uint64_t i = r; i < last; ++i) {
        std::memcpy(to + (i - r) * run, buffer.data() + (offset_of_run(i) - begin), run);
      }
    }
    to += (last - r) * run;
    r = last;
  }
  return out;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     std::vector<SafetensorsEntry> entries,
                                     SafetensorsMetadata metadata)
    : path_(std::move(path)), file_(path_) {
  SafetensorsHeader header{std::move(entries), std::move(metadata)};
  const std::string front = format_safetensors_header(header);
  entries_ = std::move(header.entries);
  data_start_ = front.size();
  write_bytes(front.data(), front.size());
}

void SafetensorsWriter::append(const at::Tensor& piece) {
  if (piece.numel() == 0) return;
  while (current_ < entries_.size() && in_entry_ == entries_[current_].bytes()) {
    ++current_;
    in_entry_ = 0;
  }
  TESSERA_CHECK(current_ < entries_.size(), path_.string(), ": more data than entries");
  const SafetensorsEntry& entry = entries_[current_];
  const at::Tensor values = piece.detach().to(at::kCPU, scalar_type(entry.dtype)).contiguous();
  TESSERA_CHECK(in_entry_ + values.nbytes() <= entry.bytes(), entry.name,
                ": a piece reaches beyond it");
  write_bytes(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  in_entry_ += values.nbytes();
}

void SafetensorsWriter::close() {
  while (current_ < entries_.size() && in_entry_ == entries_[current_].bytes()) {
    ++current_;
    in_entry_ = 0;
  }
  TESSERA_CHECK_EQ(current_, entries_.size(), path_.string(), ": tensors are missing");
  file_.close();
}

std::vector<uint64_t> SafetensorsWriter::offsets() const {
  std::vector<uint64_t> all;
  for (const SafetensorsEntry& entry : entries_) all.push_back(data_start_ + entry.begin);
  return all;
}

void SafetensorsWriter::write_bytes(const char* bytes, uint64_t count) {
  while (count > 0) {
    // Up to the end of a block, so that a whole block is summed where it lies.
    const uint64_t piece = std::min(count, kSumBlock - bytes_written_ % kSumBlock);
    sums_.add(bytes, piece);
    file_.append(bytes, piece);
    bytes_written_ += piece;
    bytes += piece;
    count -= piece;
  }
}

}  // namespace tessera
