#include "tests/e2e/layout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/config/load.h"
#include "tessera/layout/model_spec.h"
#include "tessera/rules/derive.h"
#include "tessera/rules/validate.h"
#include "tessera/storage/published_weights.h"
#include "tessera/train/open_training_data.h"
#include "tests/support/case_path.h"
#include "tests/support/json_files.h"
#include "tests/support/near_rel.h"

namespace tessera::test {
namespace {

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0) return 0;
  const double norm = b.to(at::kDouble).norm().item<double>();
  const double worst = (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return worst == 0 ? 0 : worst / norm;
}

void expect_tensor(const std::string& what, const at::Tensor& tensor,
                   const nlohmann::json& expected, double tolerance) {
  const at::Tensor t = tensor.to(at::kDouble).flatten();
  const double norm = expected.at("norm");
  EXPECT_NEAR_REL(t.norm().item<double>(), norm, tolerance) << what;
  const double scale = norm * std::sqrt(static_cast<double>(t.numel()));
  EXPECT_NEAR(t.sum().item<double>(), expected.at("sum").get<double>(), tolerance * scale) << what;
  if (!expected.contains("first")) return;
  const auto first = expected.at("first").get<std::vector<double>>();
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(t[static_cast<int64_t>(i)].item<double>(), first[i], tolerance * norm) << what;
  }
}

// As the files of the family hold them: several parameters in one tensor where it stacks them.
std::map<std::string, at::Tensor> published(const std::map<std::string, at::Tensor>& own,
                                            const ModelConfig& model) {
  std::map<std::string, at::Tensor> all;
  for (const ParamSpec& spec : model_spec(model)) {
    const auto found = own.find(spec.name);
    if (found == own.end()) continue;
    if (!spec.stack) {
      all[spec.name] = found->second;
      continue;
    }
    const StackPlace& place = *spec.stack;
    at::Tensor& stack = all[place.tensor];
    if (!stack.defined()) stack = at::zeros(place.shape, found->second.options());
    at::Tensor part = stack;
    for (const int64_t index : place.prefix) part = part.select(0, index);
    if (place.transposed) part = part.t();
    const int64_t end = place.first_row + (spec.shape[0] - 1) * place.row_step + 1;
    part.slice(0, place.first_row, end, place.row_step).copy_(found->second);
  }
  return all;
}

// PEFT's names begin with what holds the model.
std::string without_adapter_prefix(const std::string& name) {
  const std::string prefix = kAdapterPrefix;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

void expect_near(const std::optional<double>& value, const std::optional<double>& expected,
                 double tolerance, const char* what, size_t step) {
  ASSERT_EQ(value.has_value(), expected.has_value()) << what;
  if (value) {
    EXPECT_NEAR_REL(*value, *expected, tolerance) << what << " of step " << step;
  }
}

}  // namespace

Config load_case(const std::string& name, const std::vector<std::string>& set, int64_t ranks,
                 const FamilyTable& families) {
  const ConfigResult result =
      load_config((case_path(name) / "config.yaml").string(), set, families);
  std::vector<Issue> issues = result.issues;
  if (!has_errors(issues)) {
    for (const Issue& issue : validate(result.config, result.provenance, ranks, 0, families)) {
      issues.push_back(issue);
    }
  }
  if (has_errors(issues)) throw std::runtime_error(format_issues(issues));
  return result.config;
}

std::unique_ptr<RunRecord> train(const Config& config, int64_t ranks, int64_t steps) {
  return record_run(config, ranks, steps, open_training_data(config));
}

const RunRecord& one_rank(const std::string& name) {
  static std::map<std::string, std::unique_ptr<RunRecord>> records;
  auto& record = records[name];
  if (!record) {
    const Config config = load_case(name, {}, 1);
    record = train(config, 1, config.training.steps);
  }
  return *record;
}

void expect_tensors_near(const RunRecord& run, const RunRecord& reference, double tolerance) {
  EXPECT_EQ(run.gradients.size(), reference.gradients.size());
  for (const std::string& name : reference.names) {
    ASSERT_TRUE(run.gradients.contains(name)) << name;
    EXPECT_LE(relative_difference(run.gradients.at(name), reference.gradients.at(name)), tolerance)
        << "gradient of " << name;
    EXPECT_LE(relative_difference(run.values.at(name), reference.values.at(name)), tolerance)
        << "value of " << name;
  }
}

void expect_same_training(const RunRecord& run, const RunRecord& reference, double tolerance) {
  ASSERT_EQ(run.steps.size(), reference.steps.size());
  for (size_t i = 0; i < run.steps.size(); ++i) {
    EXPECT_NEAR_REL(run.steps[i].loss, reference.steps[i].loss, tolerance) << "step " << i + 1;
    EXPECT_NEAR_REL(run.steps[i].grad_norm, reference.steps[i].grad_norm, tolerance)
        << "step " << i + 1;
    EXPECT_EQ(run.steps[i].tokens, reference.steps[i].tokens) << "step " << i + 1;
    const StepMetrics& a = run.steps[i];
    const StepMetrics& b = reference.steps[i];
    expect_near(a.aux_loss, b.aux_loss, tolerance, "aux_loss", i + 1);
    expect_near(a.mtp_loss, b.mtp_loss, tolerance, "mtp_loss", i + 1);
    expect_near(a.z_loss, b.z_loss, tolerance, "z_loss", i + 1);
    EXPECT_EQ(a.moe_layers, b.moe_layers);
    EXPECT_EQ(a.tokens_per_expert, b.tokens_per_expert) << "step " << i + 1;
  }
  expect_tensors_near(run, reference, tolerance);
  for (const ReplicaDifference& d : run.replica_gradients) {
    ADD_FAILURE() << "copies of the gradient of " << d.name << " differ over " << axis_name(d.axis);
  }
  for (const ReplicaDifference& d : run.replica_values) {
    ADD_FAILURE() << "copies of " << d.name << " differ over " << axis_name(d.axis);
  }
}

void expect_identical_training(const RunRecord& run, const RunRecord& reference) {
  ASSERT_EQ(run.steps.size(), reference.steps.size());
  for (size_t i = 0; i < run.steps.size(); ++i) {
    EXPECT_EQ(run.steps[i].loss, reference.steps[i].loss) << "step " << i + 1;
    EXPECT_EQ(run.steps[i].grad_norm, reference.steps[i].grad_norm) << "step " << i + 1;
  }
  for (const std::string& name : reference.names) {
    EXPECT_TRUE(at::equal(run.gradients.at(name), reference.gradients.at(name))) << name;
    EXPECT_TRUE(at::equal(run.values.at(name), reference.values.at(name))) << name;
  }
}

void expect_matches_case(const RunRecord& run, const std::string& name, double tolerance) {
  const std::filesystem::path folder = case_path(name);
  const auto steps = read_json_lines(folder / "expected.jsonl");
  ASSERT_EQ(run.steps.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR_REL(run.steps[i].loss, steps[i].at("loss").get<double>(), tolerance) << i + 1;
    EXPECT_NEAR_REL(run.steps[i].grad_norm, steps[i].at("grad_norm").get<double>(), tolerance)
        << i + 1;
    EXPECT_NEAR_REL(run.steps[i].lr, steps[i].at("lr").get<double>(), 1e-12) << i + 1;
    EXPECT_EQ(run.steps[i].tokens, steps[i].at("tokens").get<int64_t>()) << i + 1;
    const auto expected = [&](const char* key) {
      return steps[i].contains(key) ? std::optional(steps[i].at(key).get<double>()) : std::nullopt;
    };
    expect_near(run.steps[i].aux_loss, expected("aux_loss"), tolerance, "aux_loss", i + 1);
    expect_near(run.steps[i].load_balancing_loss, expected("load_balancing_loss"), tolerance,
                "load_balancing_loss", i + 1);
    if (steps[i].contains("tokens_per_expert")) {
      EXPECT_EQ(run.steps[i].tokens_per_expert,
                steps[i].at("tokens_per_expert").get<std::vector<std::vector<int64_t>>>())
          << i + 1;
    }
  }
  const nlohmann::json grads = read_json(folder / "expected_grads.json");
  const nlohmann::json values = read_json(folder / "expected_final.json");
  const ModelConfig model = load_case(name, {}, 1).model;
  const auto own_grads = published(run.gradients, model), own_values = published(run.values, model);
  EXPECT_EQ(own_grads.size(), grads.size());
  for (const auto& [key, expected] : grads.items()) {
    const std::string parameter = without_adapter_prefix(key);
    ASSERT_TRUE(own_grads.contains(parameter)) << parameter;
    expect_tensor("gradient of " + parameter, own_grads.at(parameter), expected, tolerance);
  }
  for (const auto& [key, expected] : values.items()) {
    const std::string parameter = without_adapter_prefix(key);
    ASSERT_TRUE(own_values.contains(parameter)) << parameter;
    expect_tensor("value of " + parameter, own_values.at(parameter), expected, tolerance);
  }
}

}  // namespace tessera::test
