#pragma once

#include <vector>

#include "tessera/layout/recompute_plan.h"
#include "tessera/layout/resharding.h"
#include "tessera/models/decoder.h"
#include "tessera/parallel/model_chunk.h"

namespace tessera {

/// The call of a unit of `decoder` (embedding, a layer, the head), without the sharded units whose
/// weights it uses.
Call decoder_call(Decoder& decoder, const DecoderUnit& unit, const RecomputePlan& recompute,
                  const Resharding& resharding);

/// Weights that the call of `unit` uses and that other units of `decoder` hold: a tied matrix, the
/// head of multi-token prediction.
std::vector<const Weight*> weights_of_others(Decoder& decoder, const DecoderUnit& unit);

}  // namespace tessera
