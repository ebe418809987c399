#pragma once

#include <string>

#include "tessera/config/layer_design.h"

namespace tessera {

/// The published name of the weight of `role` in a layer, relative to the layer: the family's, else
/// that of most families. "{e}" stands for the expert. Norms are named by LayerDesign::norms.
std::string weight_name(ParamRole role, const LayerDesign& design);

/// The name of the module whose weight it is: without ".weight", and without what follows "{e}".
std::string module_of_weight(ParamRole role, const LayerDesign& design);

}  // namespace tessera
