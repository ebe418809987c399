#pragma once

#include "tessera/layout/parallel_dims.h"

namespace tessera::test {

inline ParallelDims dims_of(int64_t pp, int64_t replicate, int64_t shard, int64_t cp, int64_t tp,
                            int64_t ep = 1) {
  ParallelDims dims;
  dims.pp = pp;
  dims.dp_replicate = replicate;
  dims.dp_shard = shard;
  dims.cp = cp;
  dims.tp = tp;
  dims.ep = ep;
  dims.world = pp * replicate * shard * cp * tp;
  return dims;
}

}  // namespace tessera::test
