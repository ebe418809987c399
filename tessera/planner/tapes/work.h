#pragma once

// What an operation of a tape has to do, from which a machine file tells its seconds.

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/layout/axis.h"

namespace tessera {

enum class WorkKind {
  kProducts,       // of matrices
  kExperts,        // products of experts
  kAttention,      // forward of the kernel
  kAttentionBack,  // backward of it
  kElements,       // bytes that are read and written
  kMessage,        // to other ranks
};

struct Work {
  WorkKind kind = WorkKind::kElements;
  double flops = 0.0;   // multiplications and additions
  double extent = 0.0;  // of a product: cube root of rows x in x out
  double bytes = 0.0;   // kElements: through memory; kMessage: that this rank sends
  int64_t calls = 1;
  // kMessage: the group, and whether the rank computes meanwhile.
  Axis axis = Axis::kTp;
  std::string_view operation;  // as TrafficPlan names it
  int64_t ranks = 1;
  int64_t stride = 1;  // between neighbours of the group, in ranks of the world
  bool hidden = false;
};

/// `count` products [rows, in] x [in, out].
inline Work product_work(int64_t rows, int64_t in, int64_t out, int64_t count = 1,
                         WorkKind kind = WorkKind::kProducts) {
  const double volume =
      static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  Work work;
  work.kind = kind;
  work.calls = count;
  work.flops = 2.0 * volume * static_cast<double>(count);
  work.extent = std::cbrt(volume);
  return work;
}

inline Work elements_work(double bytes) {
  Work work;
  work.bytes = bytes;
  return work;
}

inline Work message_work(Axis axis, std::string_view operation, int64_t ranks, int64_t stride,
                         int64_t sent, int64_t calls = 1) {
  Work work;
  work.kind = WorkKind::kMessage;
  work.bytes = static_cast<double>(sent);
  work.calls = calls;
  work.axis = axis;
  work.operation = operation;
  work.ranks = ranks;
  work.stride = stride;
  return work;
}

/// The work of one call of a micro-batch. What runs again is part of the backward.
struct CallWork {
  std::vector<Work> forward;
  std::vector<Work> backward;
};

}  // namespace tessera
