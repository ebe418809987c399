#pragma once

#include "tessera/config/config.h"

namespace tessera {

/// Whether the projections of a head whose attention logits grow too large are scaled after an
/// update: the optimizer has that, the file asks for it, and no norm stands between the projections
/// and the logits (of latent attention the norms stand before the projections).
bool clips_heads(const Config& config);

}  // namespace tessera
