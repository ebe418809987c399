#pragma once

// A small sharded state, cut as any mesh says, whose true values are known: what a checkpoint is
// made of and must become again.

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/checkpoint/stored_rows.h"
#include "tessera/comm/device_mesh.h"
#include "tessera/comm/sharded_param.h"
#include "tessera/layout/model_spec.h"

namespace tessera::test {

struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<AxisCut> cuts;
  bool expert = false;
};

// Matrices cut twice along one dimension and along two, kv heads with copies, a norm that only fsdp
// cuts, one that nobody cuts, stacked experts.
inline const std::vector<Entry> kEntries = {
    {"column", {22, 5}, {{Axis::kTp, 0}, {Axis::kFsdp, 0}}},
    {"row", {7, 12}, {{Axis::kTp, 1}, {Axis::kFsdp, 0}}},
    {"kv", {6, 5}, {{Axis::kTp, 0, 2}, {Axis::kFsdp, 0}}},
    {"norm", {3}, {{Axis::kFsdp, 0}}},
    {"one", {1}, {{Axis::kFsdp, 0}}},
    {"whole", {4, 2}, {}},
    {"layer.experts.{e}.up", {6, 5, 4}, {{Axis::kEp, 0}, {Axis::kEfsdp, 1}}, true},
};

/// What `name` holds at step `step`, whole.
inline at::Tensor true_value(const std::string& name, const std::vector<int64_t>& shape,
                             int64_t step, at::ScalarType dtype) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const double base = 1000.0 * static_cast<double>(std::hash<std::string>{}(name) % 97) +
                      0.5 * static_cast<double>(step);
  return at::arange(count, at::kDouble).add(base).reshape(shape).to(dtype);
}

inline at::Tensor part_of_box(at::Tensor full, const Box& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    full = full.narrow(static_cast<int64_t>(d), box.offsets[d], box.sizes[d]);
  }
  return full;
}

/// A rank's part of all entries and of two moments; a stage of a pipeline has every other entry.
class RankState {
 public:
  RankState(const DeviceMesh& mesh, at::ScalarType dtype) : dtype_(dtype) {
    for (size_t i = 0; i < kEntries.size(); ++i) {
      const Entry& entry = kEntries[i];
      if (static_cast<int>(i % mesh.size(Axis::kPp)) != mesh.coordinate(Axis::kPp)) continue;
      ShardedParam param;
      param.name = entry.name;
      param.shape = entry.shape;
      param.cuts = entry.cuts;
      param.expert = entry.expert;
      for (AxisCut& cut : param.cuts) {
        if (mesh.size(cut.axis) % cut.copies != 0) cut.copies = 1;
      }
      ShardedParam& row = table.add(std::move(param), mesh);
      row.value = at::full(row.box.sizes, -1.0, dtype);
      moments_.push_back(
          {at::full(row.box.sizes, -1.0, dtype), at::full(row.box.sizes, -1.0, dtype)});
    }
  }

  void set(int64_t step) {
    for_each([&](const std::string& name, const ShardedParam& param, at::Tensor& value) {
      value.copy_(part_of_box(true_value(name, param.shape, step, dtype_), param.box));
    });
  }

  /// Names of what is not as it was at `step`.
  std::vector<std::string> wrong(int64_t step, bool moments = true) {
    std::vector<std::string> names;
    for_each([&](const std::string& name, const ShardedParam& param, at::Tensor& value) {
      if (!moments && name != param.name) return;
      if (!at::equal(value, part_of_box(true_value(name, param.shape, step, dtype_), param.box))) {
        names.push_back(name);
      }
    });
    return names;
  }

  OptimizerState optimizer() {
    return {[this](size_t i) {
      return std::vector<StateTensor>{{"exp_avg", moments_[i][0]}, {"exp_avg_sq", moments_[i][1]}};
    }};
  }

  ParamTable table;

 private:
  template <typename Visit>
  void for_each(Visit visit) {
    const auto& params = table.params();
    for (size_t i = 0; i < params.size(); ++i) {
      visit(params[i]->name, *params[i], params[i]->value);
      visit("exp_avg." + params[i]->name, *params[i], moments_[i][0]);
      visit("exp_avg_sq." + params[i]->name, *params[i], moments_[i][1]);
    }
  }

  at::ScalarType dtype_;
  std::vector<std::vector<at::Tensor>> moments_;
};

/// The model that the entries make up.
inline std::vector<ParamSpec> model_of_entries() {
  std::vector<ParamSpec> model;
  for (const Entry& entry : kEntries) {
    ParamSpec spec;
    if (!entry.expert) {
      spec.name = entry.name;
      spec.shape = entry.shape;
      model.push_back(spec);
      continue;
    }
    for (int64_t e = 0; e < entry.shape[0]; ++e) {
      spec.name = "layer.experts." + std::to_string(e) + ".up";
      spec.shape = {entry.shape.begin() + 1, entry.shape.end()};
      spec.expert = e;
      model.push_back(spec);
    }
  }
  return model;
}

}  // namespace tessera::test
