#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/data/indexed_dataset.h"

namespace tessera {

namespace {

std::string temporary_name(const std::string& path) {
  return path + ".part" + std::to_string(::getpid());
}

template <typename T>
void put(std::ofstream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <typename T>
void put_array(std::ofstream& out, const std::vector<T>& values) {
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(T)));
}

template <typename Stored>
void narrow(std::span<const int32_t> tokens, char* out, const std::string& prefix, int64_t before) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto stored = static_cast<Stored>(tokens[i]);
    if (static_cast<int64_t>(stored) != tokens[i]) {
      throw ConfigError(detail::concat(prefix, ": token ", tokens[i], " (number ",
                                       before + static_cast<int64_t>(i), ") does not fit into ",
                                       sizeof(Stored), " byte(s)"));
    }
    std::memcpy(out + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenDtype dtype)
    : prefix_(prefix),
      bin_path_(temporary_name(prefix + ".bin")),
      idx_path_(temporary_name(prefix + ".idx")),
      dtype_(dtype),
      bin_(bin_path_, std::ios::binary | std::ios::trunc) {
  if (!bin_) throw ConfigError(bin_path_ + ": cannot write: " + std::strerror(errno));
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (finished_) return;
  bin_.close();
  ::unlink(bin_path_.c_str());
  ::unlink(idx_path_.c_str());
}

void IndexedDatasetWriter::add_sequence(std::span<const int32_t> tokens) {
  if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw ConfigError(detail::concat(prefix_, ": a sequence of ", tokens.size(),
                                     " tokens; the format holds 2147483647"));
  }
  buffer_.resize(tokens.size() * static_cast<size_t>(size_of(dtype_)));
  switch (dtype_) {
    case TokenDtype::kUInt8: narrow<uint8_t>(tokens, buffer_.data(), prefix_, tokens_); break;
    case TokenDtype::kInt8: narrow<int8_t>(tokens, buffer_.data(), prefix_, tokens_); break;
    case TokenDtype::kInt16: narrow<int16_t>(tokens, buffer_.data(), prefix_, tokens_); break;
    case TokenDtype::kInt32: narrow<int32_t>(tokens, buffer_.data(), prefix_, tokens_); break;
    case TokenDtype::kInt64: narrow<int64_t>(tokens, buffer_.data(), prefix_, tokens_); break;
    case TokenDtype::kUInt16: narrow<uint16_t>(tokens, buffer_.data(), prefix_, tokens_); break;
  }
  bin_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  if (!bin_) throw ConfigError(bin_path_ + ": cannot write: " + std::strerror(errno));
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  tokens_ += static_cast<int64_t>(tokens.size());
}

void IndexedDatasetWriter::end_document() {
  bounds_.push_back(static_cast<int64_t>(lengths_.size()));
}

void IndexedDatasetWriter::finish() {
  TESSERA_CHECK(!finished_ && bounds_.back() == static_cast<int64_t>(lengths_.size()),
                "a document is open or the file is finished: ", prefix_);
  bin_.close();
  std::ofstream idx(idx_path_, std::ios::binary | std::ios::trunc);
  idx.write("MMIDIDX\0\0", 9);
  put(idx, uint64_t{1});
  put(idx, static_cast<uint8_t>(dtype_));
  put(idx, static_cast<uint64_t>(lengths_.size()));
  put(idx, static_cast<uint64_t>(bounds_.size()));
  put_array(idx, lengths_);
  std::vector<int64_t> offsets(lengths_.size());
  int64_t offset = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    offsets[i] = offset;
    offset += lengths_[i] * size_of(dtype_);
  }
  put_array(idx, offsets);
  put_array(idx, bounds_);
  idx.close();
  // The index goes first and comes last: a pair whose index is there is whole.
  ::unlink((prefix_ + ".idx").c_str());
  const bool bin_placed =
      bin_ && idx && std::rename(bin_path_.c_str(), (prefix_ + ".bin").c_str()) == 0;
  if (!bin_placed || std::rename(idx_path_.c_str(), (prefix_ + ".idx").c_str()) != 0) {
    const int error = errno;
    if (bin_placed) ::unlink((prefix_ + ".bin").c_str());  // no half of a pair stays
    errno = error;
    throw ConfigError(prefix_ + ".bin/.idx: cannot write: " + std::strerror(errno));
  }
  finished_ = true;
}

}  // namespace tessera
