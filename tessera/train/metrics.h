#pragma once

// What a step reports: one line for people, one JSON object for programs.

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/launcher/restarts.h"
#include "tessera/observe/tensorboard_log.h"

namespace tessera {

/// What an evaluation of one set found.
struct EvalMetrics {
  std::string name;
  double loss = 0;                      // mean over the labels that count
  double perplexity = 0;                // exp(loss)
  std::optional<double> bits_per_byte;  // of the text that the labels stand for
  int64_t tokens = 0;                   // labels that counted
  int64_t samples = 0;
  double seconds = 0;
};

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
  int64_t batch = 0;           // samples of this update
  bool grown_batch = false;    // the run has a batch that grows
  bool updated = true;         // false: no label counted, or it was skipped; nothing was learnt
  int64_t skipped_in_row = 0;  // steps that were not finite, this one the last of them
  int64_t skipped = 0;         // of the whole run, the one that it resumed included

  // Tensors on the host, from the message of one step to the message of the next: the update that
  // the previous step ended with, then loading, forward, backward. Bytes.
  int64_t memory = 0;                        // of the rank with most, as the gradients stand
  int64_t peak_memory = 0;                   // of the rank with most
  std::vector<int64_t> peak_memory_of_rank;  // [world]

  // None of these losses is part of `loss`; absent where nothing makes them.
  std::optional<double> mtp_loss;             // multi-token prediction, weighted
  std::optional<double> aux_loss;             // balance: as it enters the objective
  std::optional<double> load_balancing_loss;  // its mean over the layers, without the coefficient
  std::optional<double> z_loss;               // as it enters the objective
  /// Largest attention logit of the global batch, by layer and head; empty unless it is watched.
  std::vector<std::vector<double>> max_logits;
  std::vector<int64_t> moe_layers;                      // indices of the layers with experts
  std::vector<std::vector<int64_t>> tokens_per_expert;  // of each of them, of the global batch

  std::vector<EvalMetrics> evaluations;  // made after this update

  std::string train_state;  // of monitor.train_state, a JSON object; empty: nothing is watched
};

/// `{ step:[    3/   10], loss:  11.824228, per_step_time:   1520ms, lr: 1.000000e-05, ... }`
std::string console_line(const StepMetrics& metrics, int64_t steps);

/// One object, numbers with 17 significant digits.
std::string json_line(const StepMetrics& metrics);

/// {"valid": {...}}, and a line for each.
std::string json_object(const std::vector<EvalMetrics>& evaluations);
std::string console_lines(const std::vector<EvalMetrics>& evaluations);

/// `{ eval valid: loss:   5.123456, perplexity: ... }`
std::string console_line(const EvalMetrics& evaluation);
/// {"loss": ..., "perplexity": ..., "bits_per_byte": ..., "tokens": ..., "samples": ..., "seconds":
/// ...}
std::string json_object(const EvalMetrics& evaluation);

/// Writes both as steps end. On a terminal a line with progress and the time that is left follows.
class MetricsWriter {
 public:
  /// Creates `output_dir`, writes the resolved config.yaml and starts metrics.jsonl: with the lines
  /// that are there up to `kept_samples` (a run that resumes), else afresh. `restarts`: those of
  /// this run since the last step that was finished; each gets a line with what it cost, in front
  /// of the first step. Starts an event file of TensorBoard where the file asks for one. Throws
  /// ConfigError when it cannot.
  MetricsWriter(const Config& config, int64_t kept_samples = 0, std::vector<Restart> restarts = {});
  /// A file that takes no more (a full disk) does not end the run: it is said once, and the file
  /// ends there.
  void write(const StepMetrics& metrics);

 private:
  void start_board(const Config& config, const std::vector<std::string>& kept);

  int64_t steps_;
  bool terminal_;
  std::string path_;
  std::ofstream file_;
  bool lost_ = false;
  double seconds_ = 0;
  int64_t written_ = 0;
  std::vector<Restart> restarts_;          // that have no line yet
  std::unique_ptr<TensorboardLog> board_;  // null: none is asked for
};

}  // namespace tessera
