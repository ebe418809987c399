#include "tessera/parallel/sharded_unit.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"
#include "tessera/layout/placement.h"

namespace tessera {
namespace {

int64_t numel_of(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

// The storage stays the same object; views and saved tensors find the new memory.
void set_storage_bytes(const at::Tensor& tensor, size_t bytes) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

bool narrower(at::ScalarType a, at::ScalarType b) {
  return c10::elementSize(a) < c10::elementSize(b);
}

// Whether a sum can go on in this gradient: autograd may hand out what something else still reads.
bool is_own(const at::Tensor& gradient, at::ScalarType type) {
  return gradient.scalar_type() == type && gradient.use_count() == 1 &&
         gradient.storage().use_count() == 1;
}

// Collectives share out rows: those of the tensor, or of each matrix of a stack.
void append_cut(std::vector<at::Tensor>& list, const at::Tensor& tensor, const ShardedParam& row) {
  if (row.cuts.back().dim == 0) {
    list.push_back(tensor);
    return;
  }
  for (at::Tensor& matrix : tensor.unbind(0)) list.push_back(std::move(matrix));
}

}  // namespace

ShardedUnit::ShardedUnit(std::string name, std::vector<Weight*> weights, const DeviceMesh& mesh,
                         Axis axis, at::ScalarType master, ParamTable& table)
    : name_(std::move(name)), weights_(std::move(weights)), axis_(axis), group_(mesh[axis]) {
  bind(master, table, mesh);
}

void ShardedUnit::bind(at::ScalarType master, ParamTable& table, const DeviceMesh& mesh) {
  aliased_ = group_.size() == 1;
  std::map<at::ScalarType, int64_t> numel;
  std::vector<std::vector<int64_t>> part_sizes;
  std::vector<at::ScalarType> held;  // type of the rank's own part
  for (Weight* weight : weights_) {
    TESSERA_CHECK(weight->present(), "unit ", name_, " holds an absent weight");
    TESSERA_CHECK_EQ(weight->frozen, is_frozen(), "unit ", name_, " is frozen in part");
    parts_of_weight_.emplace_back();
    for (const ParameterPart& part : weight->parts) {
      ShardedParam row;
      row.name = part.name;
      row.shape = part.shape;
      row.role = part.role;
      row.cuts = part.placement.cuts;
      row.partial = part.placement.partial;
      row.trainable = !weight->frozen;
      row.expert = axis_ == Axis::kEfsdp;
      held.push_back(weight->frozen ? part.storage : master);
      if (weight->dtype != held.back()) aliased_ = false;
      storage_.push_back(part.storage);
      if (narrower(part.storage, held.back())) aliased_ = false;
      part_sizes.push_back(box_of(part.shape, row.cuts, mesh.dims(), mesh.rank()).sizes);
      row.cuts.push_back(storage_cut(part_sizes.back(), axis_, group_.size()));
      parts_of_weight_.back().push_back(params_.size());
      params_.push_back(&table.add(std::move(row), mesh));
      numel[weight->dtype] += numel_of(part_sizes.back());
    }
  }
  const at::TensorOptions on_device = at::TensorOptions().device(mesh.device());
  std::map<at::ScalarType, int64_t> used;
  for (const auto& [dtype, count] : numel) {
    buffers_.push_back({dtype, at::empty({count}, on_device.dtype(dtype))});
  }
  for (size_t w = 0; w < weights_.size(); ++w) {
    const at::ScalarType dtype = weights_[w]->dtype;
    const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                     [&](const Buffer& b) { return b.dtype == dtype; });
    const int64_t start = used[dtype];
    std::vector<int64_t> sizes;
    for (const size_t p : parts_of_weight_[w]) {
      const int64_t count = numel_of(part_sizes[p]);
      full_parts_.push_back(buffer->flat.narrow(0, used[dtype], count).view(part_sizes[p]));
      used[dtype] += count;
      if (sizes.empty()) {
        sizes = part_sizes[p];
      } else {
        sizes[0] += part_sizes[p][0];
      }
    }
    // variable_data(): its own version counter, so that a refill does not look like a write to a
    // saved tensor.
    weights_[w]->value = buffer->flat.narrow(0, start, used[dtype] - start)
                             .view(sizes)
                             .variable_data()
                             .set_requires_grad(!is_frozen());
  }
  for (size_t p = 0; p < params_.size(); ++p) {
    params_[p]->value = aliased_ ? full_parts_[p].variable_data()
                                 : at::zeros(params_[p]->box.sizes, on_device.dtype(held[p]));
  }
  if (aliased_) {
    for (Buffer& buffer : buffers_) buffer.flat.zero_();
    resident_ = true;
  } else {
    free();
  }
}

void ShardedUnit::for_each_part(
    const std::function<void(const ParameterPart&, ShardedParam&)>& visit) const {
  for (size_t w = 0; w < weights_.size(); ++w) {
    for (size_t i = 0; i < weights_[w]->parts.size(); ++i) {
      visit(weights_[w]->parts[i], *params_[parts_of_weight_[w][i]]);
    }
  }
}

void ShardedUnit::allocate() {
  for (const Buffer& buffer : buffers_) {
    set_storage_bytes(buffer.flat,
                      static_cast<size_t>(buffer.flat.numel()) * buffer.flat.itemsize());
  }
}

void ShardedUnit::free() {
  for (const Buffer& buffer : buffers_) set_storage_bytes(buffer.flat, 0);
  resident_ = false;
  free_when_unused_ = false;
}

void ShardedUnit::prefetch() {
  if (resident_) return;
  allocate();
  gather_inputs_.clear();
  std::vector<at::Tensor> full;
  for (size_t p = 0; p < params_.size(); ++p) {
    const at::ScalarType use = full_parts_[p].scalar_type();
    const at::Tensor& master = params_[p]->value;
    append_cut(gather_inputs_,
               (narrower(storage_[p], use) ? master.to(storage_[p]) : master).to(use), *params_[p]);
    append_cut(full, full_parts_[p], *params_[p]);
  }
  gathering_ = group_.all_gather(std::move(full), gather_inputs_);
  resident_ = true;
}

void ShardedUnit::unshard() {
  ++users_;
  prefetch();
  gathering_.wait();
  gather_inputs_.clear();
}

void ShardedUnit::end_use(bool free) {
  free_when_unused_ = free_when_unused_ || free;
  if (--users_ == 0 && free_when_unused_) reshard();
}

void ShardedUnit::reshard() {
  if (aliased_ || !resident_) return;
  gathering_.wait();
  if (users_ > 0) return;  // begun while this one waited; its end frees
  gather_inputs_.clear();
  free();
}

void ShardedUnit::add_gradients(std::vector<at::Tensor> gradients, bool defer) {
  TESSERA_CHECK_EQ(gradients.size(), weights_.size());
  TESSERA_CHECK(!is_frozen(), "gradients of unit ", name_, ", which is frozen");
  const at::ScalarType main = params_.front()->value.scalar_type();
  if (pending_.empty()) pending_.resize(weights_.size());
  if (observe_) observe_use(gradients);
  for (size_t w = 0; w < weights_.size(); ++w) {
    at::Tensor& sum = pending_[w];
    at::Tensor& bound = weights_[w]->value.mutable_grad();
    if (!sum.defined()) {
      if (gradients[w].defined()) sum = gradients[w].contiguous();
      gradients[w].reset();
    } else if (gradients[w].defined() && (bound.defined() || is_own(sum, main))) {
      sum.add_(gradients[w]);
    } else if (gradients[w].defined()) {
      sum = sum.to(main) + gradients[w].to(main);
    }
    // From now on the backward itself adds to it, where it can.
    if (!observe_ && !bound.defined() && sum.defined() && is_own(sum, main)) bound = sum;
  }
  if (++arrived_ < std::max(uses_, 1)) return;
  arrived_ = 0;
  if (observe_) report_observed();
  if (!defer) start_reduce(std::move(pending_));
}

void ShardedUnit::observe_use(const std::vector<at::Tensor>& gradients) {
  observed_.resize(weights_.size());
  for (size_t w = 0; w < weights_.size(); ++w) {
    at::Tensor& sum = observed_[w];
    if (!gradients[w].defined()) continue;
    sum = sum.defined() ? sum + gradients[w] : gradients[w].clone();
  }
}

void ShardedUnit::report_observed() {
  for (size_t w = 0; w < weights_.size(); ++w) {
    if (!observed_[w].defined()) observed_[w] = at::zeros_like(weights_[w]->value);
    int64_t row = 0;
    for (size_t i = 0; i < parts_of_weight_[w].size(); ++i) {
      const int64_t rows = full_parts_[parts_of_weight_[w][i]].size(0);
      observe_(weights_[w]->parts[i], observed_[w].narrow(0, row, rows));
      row += rows;
    }
  }
  observed_.clear();
}

void ShardedUnit::start_reduce(std::vector<at::Tensor> full) {
  wait_reduce();
  pending_.clear();
  for (Weight* weight : weights_) weight->value.mutable_grad().reset();
  std::vector<at::Tensor> inputs, shards;
  const bool accumulate = params_.front()->grad.defined();
  for (size_t w = 0; w < weights_.size(); ++w) {
    if (!full[w].defined()) full[w] = at::zeros_like(weights_[w]->value);
    if (gradient_factor_ != 1.0) full[w] = full[w] * gradient_factor_;
    int64_t row = 0;
    for (const size_t p : parts_of_weight_[w]) {
      const int64_t rows = full_parts_[p].size(0);
      at::Tensor part = full[w].narrow(0, row, rows);
      row += rows;
      ShardedParam& param = *params_[p];
      if (group_.size() == 1 && !accumulate && part.scalar_type() == param.value.scalar_type()) {
        param.grad = part;  // nothing to sum: the full gradient is the shard
        continue;
      }
      if (!accumulate) param.grad = at::empty(param.box.sizes, param.value.options());
      append_cut(inputs, part, param);
      append_cut(shards, param.grad, param);
    }
  }
  if (inputs.empty()) return;
  if (skip_reduction_) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Range rows = part_of(inputs[i].size(0), group_.size(), group_.rank());
      const at::Tensor own = inputs[i].narrow(0, rows.begin, rows.size());
      accumulate ? shards[i].add_(own) : shards[i].copy_(own);
    }
    return;
  }
  reducing_inputs_ = inputs;
  reducing_ = group_.reduce_scatter(std::move(shards), std::move(inputs), accumulate);
}

void ShardedUnit::wait_reduce() {
  reducing_.wait();
  reducing_inputs_.clear();
}

}  // namespace tessera
