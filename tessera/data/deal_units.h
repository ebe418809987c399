#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Deals the micro-batches of an update out to its data-parallel ranks so that their work is nearer
/// to equal (train_dataset.balance_enabled). `loads` [ranks x micro_batches]: of the units in the
/// usual order, all of rank 0 first. Returns which unit is at each place of that order: sorted by
/// load and dealt out in turns, forwards and backwards, or as they are where that is no better.
/// Better: neither the largest sum of a rank nor the sum over micro-batches of the largest unit
/// grows, and one of them shrinks.
std::vector<int64_t> deal_units(const std::vector<int64_t>& loads, int64_t ranks,
                                int64_t micro_batches);

}  // namespace tessera
