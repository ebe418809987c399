#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/train/parity/parity.h"

namespace tessera {

std::string parity_text(const ParityReport& r) {
  std::ostringstream out;
  out.precision(10);
  for (size_t i = 0; i < r.losses.size(); ++i) {
    out << "step " << i + 1 << "  loss " << r.losses[i] << " (one rank " << r.reference_losses[i]
        << ")  gradient norm " << r.norms[i] << " (" << r.reference_norms[i] << ")\n";
  }
  out.precision(3);
  out << r.parameters << " parameters; largest difference of a gradient " << r.worst_gradient
      << " (" << r.worst_gradient_name << "), of a value after the last step " << r.worst_value
      << " (" << r.worst_value_name << "); tolerance " << r.tolerance << "\n";
  if (r.moments_replaced != "float32") {
    out << "moments are kept in float32 here, not in " << r.moments_replaced
        << " as the file says: its rounding would hide small differences\n";
  }
  if (!r.routes.empty()) {
    const RouteDifference& first = r.routes.front();
    int64_t all = 0;
    for (const RouteDifference& route : r.routes) all += route.tokens;
    out << "routing differs: at least " << all << " choices of an expert, the first in step "
        << first.step << ", layer " << first.layer << " (" << first.tokens
        << "); where two experts are nearly tied, rounding decides, also in a layout that is right:"
        << " float64 tells\n";
  }
  if (r.passed()) {
    out << "parity holds\n";
    return out.str();
  }
  const ParityFinding& first = r.findings.front();
  out << "parity differs in " << r.findings.size() << " places; the first: " << first.what
      << ", difference " << first.difference << ", ratio " << first.ratio;
  if (!first.axis.empty()) out << ", over " << first.axis;
  out << "\n";
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < std::min(kShown, r.findings.size()); ++i) {
    const ParityFinding& f = r.findings[i];
    out << "  " << f.what << ": difference " << f.difference << ", ratio " << f.ratio
        << (f.axis.empty() ? "" : ", over " + f.axis) << "\n";
  }
  if (r.findings.size() > kShown) out << "  and " << r.findings.size() - kShown << " more\n";
  return out.str();
}

std::string parity_json(const ParityReport& r) {
  nlohmann::ordered_json json;
  json["passed"] = r.passed();
  json["tolerance"] = r.tolerance;
  for (size_t i = 0; i < r.losses.size(); ++i) {
    json["steps"].push_back({{"step", i + 1},
                             {"loss", r.losses[i]},
                             {"reference_loss", r.reference_losses[i]},
                             {"grad_norm", r.norms[i]},
                             {"reference_grad_norm", r.reference_norms[i]}});
  }
  if (r.moments_replaced != "float32") json["moments_replaced"] = r.moments_replaced;
  json["parameters"] = r.parameters;
  json["worst_gradient"] = {{"name", r.worst_gradient_name}, {"difference", r.worst_gradient}};
  json["worst_value"] = {{"name", r.worst_value_name}, {"difference", r.worst_value}};
  json["routes"] = nlohmann::ordered_json::array();
  for (const RouteDifference& route : r.routes) {
    json["routes"].push_back(
        {{"step", route.step}, {"layer", route.layer}, {"tokens", route.tokens}});
  }
  json["findings"] = nlohmann::ordered_json::array();
  for (const ParityFinding& f : r.findings) {
    json["findings"].push_back(
        {{"what", f.what}, {"difference", f.difference}, {"ratio", f.ratio}, {"axis", f.axis}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tessera
