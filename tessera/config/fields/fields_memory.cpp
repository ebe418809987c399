#include "tessera/config/fields/field.h"

namespace tessera {

std::vector<Field> memory_fields() {
  return {
      TESSERA_FIELD(recompute.mode, kHonoured,
                    "full: whole layers; select: named modules of layers.")
          .one_of("None, full, select"),
      TESSERA_FIELD_AS(recompute.full_recompute_layer, std::optional<LooseString>, kHonoured,
                       "Layers \"n\" or \"a-b\", ascending; also honoured in select mode."),
      TESSERA_FIELD(recompute.select_module, kHonoured,
                    "Pattern of a module's path in a layer -> layers."),
      TESSERA_FIELD(
          recompute.exclude_op, kHonoured,
          "Pattern of a module's path in a layer -> layers: what it keeps is kept, and it "
          "does not run again, although what surrounds it does."),

      TESSERA_FIELD(recompute_comm.enable, kNoEffect,
                    "Gathered activations are gathered again in the backward pass anyway."),
      TESSERA_FIELD(recompute_comm.select_module, kNoEffect, "See recompute_comm.enable."),

      TESSERA_FIELD(swap.enable, kRefused, "Activations on the host."),
      TESSERA_UNUSED_FIELD("swap.default_prefetch", int64_t, "See swap.enable.").at_least(1),
      TESSERA_UNUSED_FIELD("swap.layer_swap", AnyValue, "See swap.enable."),
      TESSERA_UNUSED_FIELD("swap.op_swap", AnyValue, "See swap.enable."),
  };
}

}  // namespace tessera
