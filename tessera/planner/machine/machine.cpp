#include "tessera/planner/machine/machine.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.h"

namespace tessera {

double Curve::operator()(double at) const {
  TESSERA_CHECK(!points.empty(), "a curve without points");
  if (at <= points.front().at) return points.front().value;
  for (size_t i = 1; i < points.size(); ++i) {
    const auto& [a, low] = points[i - 1];
    const auto& [b, high] = points[i];
    if (at >= b) continue;
    const double share = std::log(at / a) / std::log(b / a);
    return std::exp(std::log(low) * (1 - share) + std::log(high) * share);
  }
  return points.back().value;
}

const ComputeRates& Machine::rates(DType dtype) const {
  TESSERA_CHECK(!compute.empty(), "a machine that computes nothing");
  if (const auto found = compute.find(dtype); found != compute.end()) return found->second;
  const auto wider = [](const auto& a, const auto& b) {
    return size_of(a.first) < size_of(b.first);
  };
  return std::max_element(compute.begin(), compute.end(), wider)->second;
}

}  // namespace tessera
