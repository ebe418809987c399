#pragma once

#include <string_view>

namespace tessera {

/// A family that the reference has and this program has not.
struct UnbuiltFamily {
  std::string_view model_type;
  std::string_view architecture;
  std::string_view title;  // what people call it
};

/// By model_type or by the name of its class; nullptr: none.
const UnbuiltFamily* find_unbuilt_family(std::string_view name);

}  // namespace tessera
