#include "tessera/layout/updates/newton_schulz_steps.h"

namespace tessera {

std::vector<NewtonSchulzTriple> newton_schulz_steps(const OptimizerConfig& optimizer) {
  std::vector<NewtonSchulzTriple> steps;
  for (const NewtonSchulzTriple& triple : optimizer.ns_coefficients) {
    const int64_t count = triple.count > 0 ? triple.count : optimizer.ns_steps;
    steps.insert(steps.end(), static_cast<size_t>(count), {triple.a, triple.b, triple.c, 1});
  }
  return steps;
}

}  // namespace tessera
