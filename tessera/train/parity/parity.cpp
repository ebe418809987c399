#include "tessera/train/parity/parity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/rules/derive.h"
#include "tessera/train/open_training_data.h"
#include "tessera/train/parity/recorder.h"

namespace tessera {
namespace {

Config with_dtype(Config config, DType dtype) {
  ModelConfig& model = config.model;
  model.params_dtype = model.embedding_params_dtype = model.compute_dtype = dtype;
  if (dtype != DType::kBFloat16) {  // norms, rotation and router stay wide under bfloat16
    model.layernorm_compute_dtype = model.rotary_dtype = model.moe_router_dtype = dtype;
  }
  return config;
}

// The same mathematics on one rank: only the layout changes.
Config on_one_rank(Config config) {
  config.parallelism = ParallelismConfig{};
  config.recompute = RecomputeConfig{};
  return config;
}

double relative(double a, double b) {
  return a == b ? 0.0 : std::abs(a - b) / std::max(std::abs(b), std::numeric_limits<double>::min());
}

struct TensorDifference {
  double difference = 0;
  double ratio = 1;
  double direction = 0;  // |a - ratio b| over |a|: 0 if only the scale is wrong
};

TensorDifference compare(const at::Tensor& layout, const at::Tensor& reference) {
  const at::Tensor a = layout.to(at::kDouble).flatten();
  const at::Tensor b = reference.to(at::kDouble).flatten();
  const double worst = a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>();
  const double squares = b.dot(b).item<double>();
  TensorDifference result;
  if (worst == 0.0) return result;
  result.difference = worst / std::max(std::sqrt(squares), std::numeric_limits<double>::min());
  result.ratio =
      squares == 0 ? std::numeric_limits<double>::infinity() : a.dot(b).item<double>() / squares;
  const double size = std::sqrt(a.dot(a).item<double>());
  result.direction = size == 0 ? 0.0 : (a - result.ratio * b).norm().item<double>() / size;
  return result;
}

// Over which axis a gradient went wrong, as far as it shows: copies that differ name the axis
// themselves; a pure factor that is the size of an axis (or one over it) names that axis; else the
// axes over which this gradient is summed are to blame.
std::string guess_axis(const std::string& name, const TensorDifference& d, const RunRecord& run,
                       const ParallelDims& dims, bool gradient) {
  for (const ReplicaDifference& r : gradient ? run.replica_gradients : run.replica_values) {
    if (r.name == name) return std::string(axis_name(r.axis));
  }
  const bool pure_factor = d.direction < 1e-6;
  std::vector<Axis> summed;
  const auto found = run.cuts.find(name);
  if (found == run.cuts.end()) return "";
  std::vector<Axis> axes = found->second.partial;
  for (const AxisCut& cut : found->second.cuts) {
    if (cut.axis == Axis::kFsdp || cut.axis == Axis::kEfsdp) axes.push_back(cut.axis);
  }
  for (const Axis axis : kAllAxes) {
    const auto size = static_cast<double>(dims.size(axis));
    if (size <= 1 || std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
    if (!pure_factor) {
      summed.push_back(axis);
    } else if (relative(d.ratio, size) < 1e-6 || relative(d.ratio * size, 1) < 1e-6) {
      return std::string(axis_name(axis));
    }
  }
  if (pure_factor) return "none: one factor everywhere";
  return summed.empty() ? "none" : axis_names(summed);
}

void compare_steps(const RunRecord& run, const RunRecord& reference, ParityReport& report) {
  for (size_t i = 0; i < reference.steps.size(); ++i) {
    report.losses.push_back(run.steps.at(i).loss);
    report.norms.push_back(run.steps.at(i).grad_norm);
    report.reference_losses.push_back(reference.steps[i].loss);
    report.reference_norms.push_back(reference.steps[i].grad_norm);
  }
}

void check_scalar(const std::string& what, double value, double expected, ParityReport& report) {
  const double difference = relative(value, expected);
  if (!(difference <= report.tolerance)) {
    report.findings.push_back({what, difference, expected == 0 ? 0 : value / expected, ""});
  }
}

void check_tensors(const RunRecord& run, const RunRecord& reference, const ParallelDims& dims,
                   bool gradient, ParityReport& report) {
  const std::string what = gradient ? "gradient of " : "value of ";
  const auto& ours = gradient ? run.gradients : run.values;
  const auto& theirs = gradient ? reference.gradients : reference.values;
  double& worst = gradient ? report.worst_gradient : report.worst_value;
  std::string& worst_name = gradient ? report.worst_gradient_name : report.worst_value_name;
  std::vector<std::string> names = reference.names;
  if (gradient) std::reverse(names.begin(), names.end());  // as the backward pass makes them
  for (const std::string& name : names) {
    const auto found = ours.find(name);
    if (found == ours.end()) {
      report.findings.push_back(
          {what + name + " (no rank has it)", 1.0, 0.0, std::string(axis_name(Axis::kPp))});
      continue;
    }
    const TensorDifference d = compare(found->second, theirs.at(name));
    if (d.difference > worst || worst_name.empty()) {
      worst = std::max(worst, d.difference);
      worst_name = name;
    }
    const auto& replicas = gradient ? run.replica_gradients : run.replica_values;
    const bool copies_differ = std::any_of(replicas.begin(), replicas.end(),
                                           [&](const auto& r) { return r.name == name; });
    if (!(d.difference <= report.tolerance) || copies_differ) {
      report.findings.push_back({what + name + (copies_differ ? " (its copies differ)" : ""),
                                 d.difference, d.ratio, guess_axis(name, d, run, dims, gradient)});
    }
  }
}

// Counts that two choices leave as they were hide them: there are at least so many.
void compare_routes(const RunRecord& run, const RunRecord& reference, ParityReport& report) {
  for (size_t i = 0; i < reference.steps.size(); ++i) {
    const StepMetrics& ours = run.steps.at(i);
    const StepMetrics& theirs = reference.steps[i];
    for (size_t layer = 0; layer < theirs.moe_layers.size(); ++layer) {
      int64_t moved = 0;
      for (size_t expert = 0; expert < theirs.tokens_per_expert[layer].size(); ++expert) {
        moved += std::abs(ours.tokens_per_expert.at(layer)[expert] -
                          theirs.tokens_per_expert[layer][expert]);
      }
      if (moved > 0) {
        report.routes.push_back({static_cast<int64_t>(i) + 1, theirs.moe_layers[layer], moved / 2});
      }
    }
  }
}

// What follows a place that is wrong is wrong too: the first is named.
void check_stream(const RunRecord& run, const RunRecord& reference, ParityReport& report) {
  const std::map<StreamPlace, double> ours = run.stream.total();
  for (const auto& [place, expected] : reference.stream.total()) {
    const auto found = ours.find(place);
    check_scalar(to_string(place) + ", step 1", found == ours.end() ? 0 : found->second, expected,
                 report);
    if (!report.passed()) return;
  }
}

}  // namespace

double parity_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return 1e-10;
    case DType::kFloat32: return 1e-5;
    default: return 2e-2;
  }
}

ParityReport run_parity(const Config& original, const ParityOptions& options) {
  Config config = with_dtype(original, options.dtype);
  config.optimizer.moment_dtype = "float32";  // rounding of shorter ones hides small differences
  const int64_t steps = std::min(options.steps, config.training.steps);
  Config single = on_one_rank(config);
  const ParallelDims dims = derive_dims(config, options.ranks);
  const BatchPlan plan = make_batch_plan(config, dims);
  if (config.model.moe_router_load_balancing_type == "global_aux_loss") {
    single.training.local_batch_size = plan.effective_batch;  // it is defined on one micro-batch
  }
  const BatchPlan single_plan = make_batch_plan(single, derive_dims(single, 1));
  if (plan.effective_batch != single_plan.effective_batch) {
    throw ConfigError(detail::concat(
        "training.global_batch_size = ", config.training.global_batch_size,
        ": the layout trains on ", plan.effective_batch, " samples a step, one rank on ",
        single_plan.effective_batch, "; parity compares equal batches"));
  }
  const auto source = open_training_data(config);
  const std::unique_ptr<RunRecord> recorded_reference =
      record_run(single, 1, steps, source, {}, options.optimizers);
  const std::unique_ptr<RunRecord> recorded_run =
      record_run(config, options.ranks, steps, source, options.faults, options.optimizers);
  const RunRecord& reference = *recorded_reference;
  const RunRecord& run = *recorded_run;

  ParityReport report;
  report.tolerance = parity_tolerance(options.dtype);
  report.moments_replaced = original.optimizer.moment_dtype;
  report.parameters = reference.names.size();
  compare_steps(run, reference, report);
  compare_routes(run, reference, report);
  check_stream(run, reference, report);
  for (size_t i = 0; i < report.losses.size(); ++i) {
    const std::string step = " of step " + std::to_string(i + 1);
    check_scalar("loss" + step, report.losses[i], report.reference_losses[i], report);
    if (i == 0) check_tensors(run, reference, dims, true, report);
    check_scalar("gradient norm" + step, report.norms[i], report.reference_norms[i], report);
  }
  check_tensors(run, reference, dims, false, report);
  return report;
}

}  // namespace tessera
