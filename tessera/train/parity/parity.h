#pragma once

// The layout against one rank: the same file, weights and samples; loss, norm, every gradient and
// every value compared. What the program promises, proven by the program.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/optim/optimizers.h"
#include "tessera/train/parity/faults.h"

namespace tessera {

struct ParityOptions {
  int64_t ranks = 1;
  int64_t steps = 3;
  DType dtype = DType::kFloat64;
  Faults faults;  // injected into the layout, not in the reference
  OptimizerMakers optimizers = builtin_optimizer_makers();  // that optimizer.type may name
};

/// One number or tensor that differs. `difference` is relative: of scalars to the reference, of
/// tensors max|a - b| over the norm of b.
struct ParityFinding {
  /// "activations after the attention of layer 1, step 1", "loss of step 1", "gradient of
  /// lm_head.weight", "gradient norm of step 1", "value of …".
  std::string what;
  double difference = 0;
  double ratio = 1;  // of the layout's to the reference's (tensors: least squares)
  std::string axis;  // over which it went wrong, as far as it shows
};

/// Choices of an expert, of one layer in one step, that differ: at least `tokens` of them. With a
/// near-tie rounding decides, so below float64 they do not show a fault by themselves; what comes
/// after them differs.
struct RouteDifference {
  int64_t step = 0;
  int64_t layer = 0;
  int64_t tokens = 0;
};

struct ParityReport {
  double tolerance = 0;
  std::string moments_replaced = "float32";  // the file's optimizer.moment_dtype; float32 was used
  std::vector<double> losses, reference_losses;  // per step
  std::vector<double> norms, reference_norms;
  size_t parameters = 0;
  double worst_gradient = 0;  // largest difference, and whose
  std::string worst_gradient_name;
  double worst_value = 0;
  std::string worst_value_name;
  std::vector<RouteDifference> routes;
  /// What exceeds the tolerance, in the order in which a step computes it: forward, loss, gradients
  /// from the head down, norm; so the first is where it went wrong.
  std::vector<ParityFinding> findings;

  bool passed() const { return findings.empty(); }
};

/// Largest difference allowed between a layout and one rank: 1e-10 in float64, 1e-5 in float32,
/// 2e-2 in bfloat16.
double parity_tolerance(DType dtype);

/// Runs both. Throws ConfigError when the layout and one rank train on batches of different size,
/// and what training throws.
ParityReport run_parity(const Config& config, const ParityOptions& options);

std::string parity_text(const ParityReport& report);
std::string parity_json(const ParityReport& report);

}  // namespace tessera
