#include "tessera/data/indexed_dataset.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/lfs_pointer.h"
#include "tessera/data/hash.h"
#include "tessera/data/unaligned.h"

namespace tessera {

namespace {

// Header of an .idx: 9 bytes of magic, u64 version, u8 dtype, u64 sequences, u64 document bounds.
constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr int64_t kHeaderBytes = 34;

std::string dtype_list() { return "1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16"; }

template <typename Stored>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = load_unaligned<Stored>(from, static_cast<int64_t>(i));
  }
}

}  // namespace

std::string to_string(TokenDtype dtype) {
  switch (dtype) {
    case TokenDtype::kUInt8: return "uint8";
    case TokenDtype::kInt8: return "int8";
    case TokenDtype::kInt16: return "int16";
    case TokenDtype::kInt32: return "int32";
    case TokenDtype::kInt64: return "int64";
    case TokenDtype::kUInt16: return "uint16";
  }
  return "code " + std::to_string(static_cast<int>(dtype));
}

int64_t size_of(TokenDtype dtype) {
  switch (dtype) {
    case TokenDtype::kUInt8:
    case TokenDtype::kInt8: return 1;
    case TokenDtype::kInt16:
    case TokenDtype::kUInt16: return 2;
    case TokenDtype::kInt32: return 4;
    case TokenDtype::kInt64: return 8;
  }
  TESSERA_CHECK(false, "token dtype ", dtype);
  return 0;
}

TokenDtype token_dtype_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenDtype::kUInt16 : TokenDtype::kInt32;
}

IndexedDataset::IndexedDataset(const std::string& prefix)
    : prefix_(prefix), idx_(prefix + ".idx"), bin_(prefix + ".bin") {
  const std::string idx = prefix + ".idx";
  const auto refuse = [](const std::string& file, const auto&... what) {
    throw ConfigError(file + ": " + detail::concat(what...));
  };
  for (const std::string& file : {idx, prefix + ".bin"}) {
    if (const std::string problem = lfs_pointer_problem(file); !problem.empty()) {
      refuse(file, problem);
    }
  }
  if (idx_.size() < kHeaderBytes) {
    refuse(idx, "the header needs ", kHeaderBytes, " bytes, the file has ", idx_.size());
  }
  const std::byte* base = idx_.data();
  if (std::memcmp(base, kMagic, sizeof(kMagic)) != 0) {
    refuse(idx, "no Megatron index: it does not begin with MMIDIDX");
  }
  const auto version = load_unaligned<uint64_t>(base + 9, 0);
  if (version != 1) refuse(idx, "version ", version, ", only 1 is known");
  const int code = std::to_integer<int>(base[17]);
  if (code == 6 || code == 7) {
    refuse(idx, "dtype code ", code, " is a floating-point type; tokens are ", dtype_list());
  }
  if (code == 0 || code > 8) refuse(idx, "dtype code ", code, "; known are ", dtype_list());
  dtype_ = static_cast<TokenDtype>(code);

  const auto sequences = load_unaligned<uint64_t>(base + 18, 0);
  const auto bounds = load_unaligned<uint64_t>(base + 26, 0);
  const auto room = static_cast<uint64_t>(idx_.size() - kHeaderBytes);
  if (sequences > room / 12 || bounds > room / 8 || sequences * 12 + bounds * 8 > room) {
    refuse(idx, "truncated: ", sequences, " sequences and ", bounds,
           " document bounds do not fit into its ", idx_.size(), " bytes");
  }
  if (bounds == 0) refuse(idx, "no document bounds: the count is 0, at least 1 is written");
  sequences_ = static_cast<int64_t>(sequences);
  documents_ = static_cast<int64_t>(bounds) - 1;
  lengths_ = base + kHeaderBytes;
  offsets_ = lengths_ + 4 * sequences_;
  bounds_ = offsets_ + 8 * sequences_;

  const int64_t item = size_of(dtype_);
  const int64_t bin_size = bin_.size();
  for (int64_t i = 0; i < sequences_; ++i) {
    const int64_t tokens = load_unaligned<int32_t>(lengths_, i);
    const int64_t offset = load_unaligned<int64_t>(offsets_, i);
    if (tokens < 0) refuse(idx, "length of sequence ", i, " is ", tokens);
    if (offset < 0 || offset > bin_size || tokens * item > bin_size - offset) {
      refuse(prefix + ".bin", "sequence ", i, " of the index lies at bytes [", offset, ", ",
             static_cast<uint64_t>(offset) + static_cast<uint64_t>(tokens * item),
             "), the file has ", bin_size);
    }
    tokens_ += tokens;
  }
  int64_t last = 0;
  for (int64_t i = 0; i <= documents_; ++i) {
    const int64_t bound = document_bound(i);
    if (bound < last || (i == 0 && bound != 0)) {
      refuse(idx, "document bound ", i, " is ", bound,
             i == 0 ? ", not 0" : ", below the one before");
    }
    last = bound;
  }
  if (last != sequences_) {
    refuse(idx, "the last document bound is ", last, ", the sequences are ", sequences_);
  }
}

int64_t IndexedDataset::length(int64_t sequence) const {
  return load_unaligned<int32_t>(lengths_, sequence);
}

int64_t IndexedDataset::byte_offset(int64_t sequence) const {
  return load_unaligned<int64_t>(offsets_, sequence);
}

int64_t IndexedDataset::document_bound(int64_t document) const {
  return load_unaligned<int64_t>(bounds_, document);
}

int64_t IndexedDataset::token_count(int64_t first, int64_t last) const {
  int64_t sum = 0;
  for (int64_t i = first; i < last; ++i) sum += length(i);
  return sum;
}

uint64_t IndexedDataset::lengths_checksum(int64_t first, int64_t last) const {
  return checksum64(lengths_ + 4 * first, 4 * (last - first));
}

void IndexedDataset::read(int64_t sequence, int64_t offset, std::span<int64_t> out) const {
  TESSERA_CHECK(sequence >= 0 && sequence < sequences_ && offset >= 0 &&
                    offset + static_cast<int64_t>(out.size()) <= length(sequence),
                prefix_, ": sequence ", sequence, ", tokens [", offset, ", ", offset + out.size(),
                ")");
  const std::byte* from = bin_.data() + byte_offset(sequence) + offset * size_of(dtype_);
  switch (dtype_) {
    case TokenDtype::kUInt8: return widen<uint8_t>(from, out);
    case TokenDtype::kInt8: return widen<int8_t>(from, out);
    case TokenDtype::kInt16: return widen<int16_t>(from, out);
    case TokenDtype::kInt32: return widen<int32_t>(from, out);
    case TokenDtype::kInt64: return widen<int64_t>(from, out);
    case TokenDtype::kUInt16: return widen<uint16_t>(from, out);
  }
}

}  // namespace tessera
