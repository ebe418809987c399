#pragma once

#include <c10/core/ScalarType.h>

#include "tessera/storage/element_type.h"

namespace tessera {

/// libtorch's name of a stored type, and back. A type that no file can hold is an internal error.
at::ScalarType scalar_type(ElementType type);
ElementType element_type(at::ScalarType type);

}  // namespace tessera
