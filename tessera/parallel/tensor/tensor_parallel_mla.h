#pragma once

#include "tessera/comm/process_group.h"
#include "tessera/nn/attention/mla.h"

namespace tessera {

/// Cuts latent attention over `tp`: the small projections and their norms work on the slice of the
/// tokens, their results are gathered, the heads behind them are cut. `overlap` as
/// RowLinear's.
void latent_attention_over_tp(LatentAttention& attention, const ProcessGroup& tp, bool overlap);

}  // namespace tessera
