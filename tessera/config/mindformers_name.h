#pragma once

#include <string>

namespace tessera {

/// What MindFormers calls the tensor that holds the parameter of this Hugging Face name. Tensors
/// are fused there, so several names give one.
std::string mindformers_name(std::string name);

}  // namespace tessera
