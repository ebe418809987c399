#include "tessera/parallel/place_weights.h"

#include "tessera/layout/placement.h"

namespace tessera {

void place_weights(Decoder& decoder, const ModelConfig& model, const ParallelDims& dims) {
  for (const DecoderUnit& unit : decoder.units()) {
    for (Weight* weight : unit.weights) {
      for (ParameterPart& part : weight->parts) {
        part.placement = place_parameter(part.role, model, dims);
      }
    }
  }
}

}  // namespace tessera
