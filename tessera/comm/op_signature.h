#pragma once

// What all members of a collective must agree on, in a form that is cheap to make and to compare.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class OpKind {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kSplit,
};

/// "all_gather", ...
const char* op_name(OpKind kind);

class OpSignature {
 public:
  explicit OpSignature(OpKind kind, int64_t detail = 0)
      : words_{static_cast<int64_t>(kind), detail} {}

  OpKind kind() const { return static_cast<OpKind>(words_[0]); }
  /// Dtype and sizes of a tensor; the rows (dimension 0) are left out if members may differ in
  /// them.
  void add(const at::Tensor& tensor, bool with_rows = true);
  /// Anything else; it is compared but not shown.
  void add_hidden(int64_t word) { hidden_.push_back(word); }

  bool operator==(const OpSignature&) const = default;

  /// For example "all_gather of float32 [8, 4], bfloat16 [3]".
  std::string describe() const;

 private:
  std::vector<int64_t> words_;  // kind, detail, then per tensor: dtype, dimensions, sizes (-1: any)
  std::vector<int64_t> hidden_;
};

}  // namespace tessera
