#pragma once

// Two parts of one rank's work that hide each other's communication.

#include <functional>

#include "tessera/base/timeline.h"

namespace tessera {

/// Runs `first` in this thread and `second` in a thread of its own, only one of them at a time: the
/// turn passes whenever the part that has it waits for a collective, and when one of them ends. So
/// a collective that one part waits for goes on while the other part computes. Returns when both
/// have ended.
///
/// Where the turn passes depends on the waits alone, not on time: ranks whose parts wait for the
/// same collectives start them in the same order. A wait for a message (send, recv)
/// does not pass the turn, because ranks may have different messages.
///
/// When one part throws, the other ends at its next collective, and the error is thrown here. The
/// waits are recorded in `timeline`, which is told whose turn it is. Not nested.
void run_in_turns(const std::function<void()>& first, const std::function<void()>& second,
                  Timeline* timeline = nullptr);

/// What a wait for a collective does before it blocks: lets the other part of this rank's work run
/// until it waits or ends. Nothing outside of run_in_turns. Throws if the other has failed.
void pass_turn();

/// Where the calling thread records its waits; nullptr outside of run_in_turns.
Timeline* timeline_of_turn();

}  // namespace tessera
