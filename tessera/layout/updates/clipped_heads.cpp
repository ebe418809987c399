#include "tessera/layout/updates/clipped_heads.h"

#include "tessera/config/optimizer_kind.h"

namespace tessera {

bool clips_heads(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer;
  if (!optimizer.kind || !optimizer.kind->has("qk_clip_enabled")) return false;
  if (!optimizer.qk_clip_enabled) return false;
  const ModelConfig& model = config.model;
  if (model.lora.is_given()) return false;  // they are frozen
  return model.has_latent_attention() ||
         (model.norm_at(NormPlace::kQuery) == nullptr && model.norm_at(NormPlace::kKey) == nullptr);
}

}  // namespace tessera
