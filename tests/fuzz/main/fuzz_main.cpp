// The entry of libFuzzer for the target that FUZZ_TARGET names.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::fuzz::FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
