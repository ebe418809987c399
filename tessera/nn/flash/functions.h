#pragma once

// The kernel's functions by instruction set.

#include <cstddef>
#include <vector>

#include "tessera/nn/flash/problem.h"

namespace tessera::kernels::flash {

enum class InstructionSet { kPlain, kAvx2, kAvx512 };  // ascending

/// Tasks [begin, end) of a problem. Each writes what no other writes, and its result does not
/// depend on the others, so that they may be shared among threads in any way. `room`: work space of
/// one thread, at a multiple of 64 bytes.
template <typename T>
struct Functions {
  void (*forward)(const ForwardProblem<T>&, int64_t begin, int64_t end, std::byte* room);
  void (*backward)(const BackwardProblem<T>&, int64_t begin, int64_t end, std::byte* room);
  /// Bytes of the room.
  int64_t (*forward_room)(const Sizes&);
  int64_t (*backward_room)(const Sizes&);
};

/// Blocks of queries of a head: a task of the forward pass each, in the order of samples, heads and
/// blocks. The backward pass has a task for each kv head of each sample.
int64_t query_blocks(int64_t queries);

/// Those of a set that this processor has.
template <typename T>
const Functions<T>& functions_of(InstructionSet set);

/// What this processor has, ascending; kPlain is among them.
std::vector<InstructionSet> instruction_sets_here();

/// The best of them that ATEN_CPU_CAPABILITY (default, avx2, avx512; libtorch obeys it too) allows.
InstructionSet chosen_instruction_set();

}  // namespace tessera::kernels::flash
