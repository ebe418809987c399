#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/box.h"

namespace tessera {

/// How the tokens of a row are shared by the ranks of a context-parallel group.
enum class TokenBalance {
  kContiguous,  // rank c holds chunk c of C
  kHeadTail,    // rank c holds chunks c and 2C - 1 - c of 2C: equal work for one causal document
  kByWork,      // equal attention work for the row's documents, in few pieces
};

/// Places [begin, end) of a row, ascending and disjoint.
using Pieces = std::vector<Range>;

/// Pieces of each rank [cp_degree]: disjoint, together the whole row, seq_length / cp_degree tokens
/// each. `document_ends` as in SampleColumns (used by kByWork only, which is never worse than
/// kHeadTail). Throws ConfigError unless cp_degree divides seq_length (2 cp_degree for kHeadTail),
/// naming the nearest legal lengths.
std::vector<Pieces> split_row(int64_t seq_length, std::span<const int64_t> document_ends,
                              int64_t cp_degree, TokenBalance balance);

/// `pieces` cut into `parts` runs of equally many places, in order. Throws ConfigError unless
/// `parts` divides them.
std::vector<Pieces> split_pieces(const Pieces& pieces, int64_t parts);

/// Attention work of the queries in `pieces`: for each, the number of keys that it sees (itself and
/// those before it in its document), summed. Times 4 * head_dim * heads it is the forward's FLOPs.
int64_t attention_work(const Pieces& pieces, std::span<const int64_t> document_ends);

}  // namespace tessera
