#pragma once

// What a step reports: one line for people, one JSON object for programs.

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/config/config.h"

namespace tessera {

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0;
  double grad_norm = 0;  // before clipping
  double lr = 0;         // the one the update used
  int64_t tokens = 0;    // labels that counted, of the global batch
  int64_t samples = 0;   // trained on so far, this step's included
  double seconds = 0;
  double tokens_per_second = 0;  // all tokens of the global batch, masked ones too
  double tflops_per_rank = 0;
  bool updated = true;  // false: no label counted, nothing was learnt
};

/// `{ step:[    3/   10], loss:  11.824228, per_step_time:   1520ms, lr: 1.000000e-05, ... }`
std::string console_line(const StepMetrics& metrics, int64_t steps);

/// One object, numbers with 17 significant digits.
std::string json_line(const StepMetrics& metrics);

/// Writes both as steps end. On a terminal a line with progress and the time that is left follows.
class MetricsWriter {
 public:
  /// Creates `output_dir`, writes the resolved config.yaml, starts metrics.jsonl afresh, or keeps its
  /// first `kept_steps` lines. Throws ConfigError when it cannot.
  MetricsWriter(const Config& config, int64_t kept_steps = 0);
  void write(const StepMetrics& metrics);

 private:
  int64_t steps_;
  bool terminal_;
  std::ofstream file_;
  double seconds_ = 0;
  int64_t written_ = 0;
};

}  // namespace tessera
