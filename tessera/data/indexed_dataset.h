#pragma once

// Megatron's token files: `<prefix>.bin` holds tokens back to back, `<prefix>.idx` says where each
// stored sequence lies. Little-endian, as is every machine that this is built for.

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/mapped_file.h"

namespace tessera {

/// How a token is stored; the values are the codes in an .idx. (6 and 7 are float64 and float32
/// there: no tokens.)
enum class TokenDtype : uint8_t {
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt16 = 8,
};

/// "uint16", "int32", …
std::string to_string(TokenDtype dtype);

/// Bytes of one token.
int64_t size_of(TokenDtype dtype);

/// What Megatron's writers choose: uint16 below 65500, else int32.
TokenDtype token_dtype_for(int64_t vocab_size);

/// Reads a .bin/.idx pair through the page cache. Immutable, so any thread may read. Offsets are
/// 64-bit throughout: files beyond 2^31 tokens or bytes are ordinary.
class IndexedDataset {
 public:
  /// `prefix` is the path without .bin or .idx. Checks header, version, dtype, every length, offset
  /// and document bound. Throws ConfigError that names the file, the field and the values.
  explicit IndexedDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  TokenDtype dtype() const { return dtype_; }
  int64_t sequence_count() const { return sequences_; }
  int64_t document_count() const { return documents_; }
  int64_t token_count() const { return tokens_; }
  int64_t bin_bytes() const { return bin_.size(); }

  /// Tokens of stored sequence `sequence`.
  int64_t length(int64_t sequence) const;
  /// Where it begins in the .bin, in bytes.
  int64_t byte_offset(int64_t sequence) const;
  /// First sequence of document `document`; document_bound(document_count()) is sequence_count().
  int64_t document_bound(int64_t document) const;
  /// Sum of the lengths of sequences [first, last).
  int64_t token_count(int64_t first, int64_t last) const;
  /// A number that changes when any length of [first, last) does.
  uint64_t lengths_checksum(int64_t first, int64_t last) const;

  /// Copies tokens [offset, offset + out.size()) of the sequence, widened.
  void read(int64_t sequence, int64_t offset, std::span<int64_t> out) const;

 private:
  std::string prefix_;
  MappedFile idx_;
  MappedFile bin_;
  TokenDtype dtype_ = TokenDtype::kInt32;
  int64_t sequences_ = 0;
  int64_t documents_ = 0;
  int64_t tokens_ = 0;
  const std::byte* lengths_ = nullptr;  // int32[sequences], unaligned
  const std::byte* offsets_ = nullptr;  // int64[sequences], unaligned
  const std::byte* bounds_ = nullptr;   // int64[documents + 1], unaligned
};

/// Writes a .bin/.idx pair as it comes, under temporary names beside the target; finish() renames
/// both into place. An object destroyed without finish() leaves nothing behind.
class IndexedDatasetWriter {
 public:
  /// Throws ConfigError if the files cannot be made.
  IndexedDatasetWriter(const std::string& prefix, TokenDtype dtype);
  ~IndexedDatasetWriter();
  IndexedDatasetWriter(const IndexedDatasetWriter&) = delete;
  IndexedDatasetWriter& operator=(const IndexedDatasetWriter&) = delete;

  /// Appends one sequence. Throws ConfigError on a token that the dtype cannot hold, a sequence of
  /// 2^31 tokens or more, or a full disk.
  void add_sequence(std::span<const int32_t> tokens);
  /// The sequences since the last call are one document.
  void end_document();
  /// Writes the .idx and moves both files into place.
  void finish();

  int64_t token_count() const { return tokens_; }
  int64_t document_count() const { return static_cast<int64_t>(bounds_.size()) - 1; }

 private:
  std::string prefix_;
  std::string bin_path_;  // temporary
  std::string idx_path_;
  TokenDtype dtype_;
  std::ofstream bin_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> bounds_{0};
  std::vector<char> buffer_;
  int64_t tokens_ = 0;
  bool finished_ = false;
};

}  // namespace tessera
