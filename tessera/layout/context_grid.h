#pragma once

// How the ranks of context parallelism share a sample, and how keys and values travel among them.

#include <cstdint>

#include "tessera/config/config.h"
#include "tessera/data/token_split.h"

namespace tessera {

/// The cp ranks as `outer` groups of `inner` neighbours. Inside a group heads are traded for
/// sequence (Ulysses); between groups keys and values travel. colossal: inner 1; ulysses: outer 1.
struct ContextGrid {
  int64_t inner = 1;
  int64_t outer = 1;

  bool operator==(const ContextGrid&) const = default;
};

ContextGrid context_grid(const ParallelismConfig& parallelism);

/// Whether the parts of q, k and v are offered to attention in turn, so that the trade of one goes
/// on while the next is computed.
bool trades_in_turn(const ParallelismConfig& parallelism);

/// How keys and values reach the queries of other groups.
enum class KeyExchange {
  kAuto,       // by size: gathered while that is small, else in a ring
  kRing,       // those of one group at a time: two blocks of keys and values exist at once
  kAllGather,  // all at once
};

KeyExchange key_exchange(const ParallelismConfig& parallelism);

/// Whether keys and values, `key_bytes` bytes each on a rank, travel in a ring over `groups`
/// groups: as asked, else where all of them together are larger than what is gathered.
bool travels_in_ring(KeyExchange asked, int64_t groups, int64_t key_bytes);

/// How the groups of the grid share a sample: equal work where there is something to balance.
/// Neighbours that trade heads have equal work however the sample is cut.
TokenBalance token_balance(const Config& config);

/// Equal pieces into which TokenBalance::kHeadTail cuts a sample: it must divide the length.
constexpr int64_t head_tail_pieces(int64_t groups) { return 2 * groups; }

}  // namespace tessera
