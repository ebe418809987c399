#pragma once

// Groups one of whose operations goes wrong: how planted faults enter a seam that communicates. All
// else is done by the group that was given.

#include <cstdint>
#include <functional>

#include "tessera/comm/process_group.h"

namespace tessera {

/// all_reduce leaves every rank its own.
ProcessGroup without_sums(const ProcessGroup& group);

/// reduce_scatter gives a rank its own part of its own tensor.
ProcessGroup without_scattered_sums(const ProcessGroup& group);

/// A receive asks for the message of another tag.
ProcessGroup with_other_tags(const ProcessGroup& group, std::function<int64_t(int64_t tag)> other);

/// What arrives from `peer` under `tag` arrives as zeros.
ProcessGroup without_message(const ProcessGroup& group, int peer, int64_t tag);

/// An all-to-all that brings back what the one before it sent has the splits of that one, swapped.
/// It takes the rows for a member from where they would begin if the splits had not been swapped.
ProcessGroup with_forward_splits(const ProcessGroup& group);

}  // namespace tessera
