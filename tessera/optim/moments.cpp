#include "tessera/optim/moments.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>

#include "tessera/layout/updates/moment_batches.h"
#include "tessera/nn/kernels/moment_codes.h"
#include "tessera/nn/kernels/philox.h"

namespace tessera {
namespace {

int64_t matrices_of(const ShardedParam& param) {
  return param.box.sizes.size() == 3 ? param.box.sizes[0] : 1;
}

// The part of a tensor, or of its scales, that belongs to one matrix of a stack.
at::Tensor of_matrix(const at::Tensor& tensor, const ShardedParam& param, int64_t matrix) {
  const int64_t each = tensor.numel() / matrices_of(param);
  return tensor.view({-1}).narrow(0, matrix * each, each);
}

// "exp_avg.model.layers.0.mlp.experts.3.up_proj.weight"
std::string name_of_matrix(const std::string& slot, const ShardedParam& param, int64_t matrix) {
  std::string name = slot + "." + param.name;
  const std::string expert = "{e}";
  if (const size_t at = name.find(expert); at != std::string::npos) {
    name.replace(at, expert.size(), std::to_string(param.box.offsets[0] + matrix));
  }
  return name;
}

}  // namespace

Moments::Moments(const Config& config, const ParamTable& table, const DeviceMesh& mesh,
                 ProcessGroup stage)
    : table_(table), stage_(std::move(stage)), seed_(static_cast<uint64_t>(config.training.seed)) {
  std::vector<MomentTensor> tensors;
  for (const auto& param : table.params()) {
    add_row(config, *param);
    Row& row = rows_.back();
    MomentTensor tensor{param->name, param->shape, param->cuts, 0};
    for (const Kept& slot : row.slots) {
      if (slot.type != MomentType::kMaster) ++tensor.shortened;
    }
    if (std::ranges::any_of(row.slots,
                            [](const Kept& slot) { return slot.type == MomentType::kInt8; })) {
      find_divided(row, *param, mesh);
    }
    tensors.push_back(std::move(tensor));
  }
  batches_ = moment_batches(tensors, mesh.dims(), mesh.rank());
}

void Moments::add_row(const Config& config, const ShardedParam& param) {
  Row& row = rows_.emplace_back();
  if (!param.trainable) return;
  const OptimizerConfig& optimizer = config.optimizer;
  const StateOwner owner{param.name, param.role, param.shape};
  for (const Slot& slot : optimizer.kind->slots(optimizer, owner)) {
    Kept& kept = row.slots.emplace_back();
    kept.type = moment_type(optimizer, slot, owner);
    kept.stored.slot = slot.name;
    kept.stored.is_signed = slot.values == Slot::Values::kSigned;
    const at::TensorOptions options = param.value.options();
    if (kept.type == MomentType::kMaster) {
      kept.stored.value = at::zeros_like(param.value);
      continue;
    }
    row.blocks = matrix_blocks(param.shape.back(), matrix_box(param.box));
    if (kept.type == MomentType::kBfloat16) {
      kept.stored.value = at::zeros(param.box.sizes, options.dtype(at::kBFloat16));
      continue;
    }
    kept.stored.value = at::empty(param.box.sizes, options.dtype(at::kByte));
    kept.stored.scales =
        at::zeros({matrices_of(param) * row.blocks.count}, options.dtype(at::kFloat));
    const std::array<float, 256>& codes = moment_codes(kept.stored.is_signed);
    kept.stored.value.fill_(std::ranges::find(codes, 0.0F) - codes.begin());
  }
}

void Moments::find_divided(Row& row, const ShardedParam& param, const DeviceMesh& mesh) {
  const size_t dims = param.shape.size();
  const CutLines cuts = cut_lines(param.shape, param.cuts, mesh.dims(), mesh.rank());
  const std::vector<int64_t> divided =
      divided_blocks(param.shape[dims - 2], param.shape[dims - 1], cuts);
  const auto each = static_cast<int64_t>(divided.size());
  row.shared = each * (dims == 3 ? param.shape[0] : 1);
  const std::vector<int64_t> numbers = row.blocks.numbers();
  for (int64_t matrix = 0; matrix < matrices_of(param); ++matrix) {
    const int64_t first = dims == 3 ? param.box.offsets[0] + matrix : 0;
    for (size_t local = 0; local < numbers.size(); ++local) {
      const auto at = std::ranges::lower_bound(divided, numbers[local]);
      if (at == divided.end() || *at != numbers[local]) continue;
      row.divided.push_back({matrix * row.blocks.count + static_cast<int64_t>(local),
                             first * each + (at - divided.begin())});
    }
  }
}

at::Tensor& Moments::tensor(size_t row, size_t slot) {
  Kept& kept = rows_[row].slots[slot];
  return kept.open.defined() ? kept.open : kept.stored.value;
}

std::vector<StateTensor> Moments::kept(size_t row) const {
  std::vector<StateTensor> tensors;
  for (const Kept& slot : rows_[row].slots) tensors.push_back(slot.stored);
  return tensors;
}

void Moments::open(size_t batch) {
  for (const size_t i : batches_[batch]) {
    const ShardedParam& param = *table_.params()[i];
    for (Kept& slot : rows_[i].slots) {
      if (slot.type == MomentType::kMaster) continue;
      if (slot.type == MomentType::kBfloat16) {
        slot.open = slot.stored.value.to(param.value.scalar_type());
        continue;
      }
      slot.open = at::empty_like(param.value);
      if (slot.open.numel() == 0) continue;
      for (int64_t matrix = 0; matrix < matrices_of(param); ++matrix) {
        decode_moments(of_matrix(slot.stored.value, param, matrix), rows_[i].blocks,
                       of_matrix(slot.stored.scales, param, matrix), slot.stored.is_signed,
                       of_matrix(slot.open, param, matrix));
      }
    }
  }
}

// The scale of a block is its largest value; those of divided blocks are taken over the ranks.
void Moments::find_scales(const std::vector<size_t>& rows) {
  int64_t shared = 0;
  for (const size_t i : rows) {
    const ShardedParam& param = *table_.params()[i];
    for (const Kept& slot : rows_[i].slots) {
      if (slot.type != MomentType::kInt8 || !slot.open.defined()) continue;
      shared += rows_[i].shared;
      if (slot.open.numel() == 0) continue;
      for (int64_t matrix = 0; matrix < matrices_of(param); ++matrix) {
        block_maxima(of_matrix(slot.open, param, matrix), rows_[i].blocks,
                     of_matrix(slot.stored.scales, param, matrix));
      }
    }
  }
  if (shared == 0) return;
  const at::Tensor message = at::zeros({shared}, at::kFloat);
  const auto visit = [&](auto visit_block) {
    int64_t begin = 0;
    for (const size_t i : rows) {
      for (const Kept& slot : rows_[i].slots) {
        if (slot.type != MomentType::kInt8 || !slot.open.defined()) continue;
        for (const Divided& block : rows_[i].divided) {
          visit_block(slot.stored.scales.data_ptr<float>()[block.local],
                      message.data_ptr<float>()[begin + block.shared]);
        }
        begin += rows_[i].shared;
      }
    }
  };
  visit([](float& own, float& sent) { sent = own; });
  stage_.all_reduce({message}, ReduceOp::kMax).wait();
  visit([](float& own, float& received) { own = received; });
}

void Moments::encode(Row& row, const ShardedParam& param, int64_t update) {
  for (Kept& slot : row.slots) {
    if (!slot.open.defined()) continue;
    for (int64_t matrix = 0; matrix < matrices_of(param) && slot.open.numel() > 0; ++matrix) {
      const at::Tensor values = of_matrix(slot.open, param, matrix);
      const at::Tensor kept = of_matrix(slot.stored.value, param, matrix);
      const uint64_t key = philox_key(seed_, name_of_matrix(slot.stored.slot, param, matrix));
      if (slot.type == MomentType::kInt8) {
        encode_moments(values, row.blocks, of_matrix(slot.stored.scales, param, matrix),
                       slot.stored.is_signed, key, static_cast<uint64_t>(update), kept);
      } else {
        round_moments(values, row.blocks, key, static_cast<uint64_t>(update), kept);
      }
    }
    slot.open.reset();
  }
}

void Moments::close(size_t batch, int64_t update) {
  find_scales(batches_[batch]);
  for (const size_t i : batches_[batch]) encode(rows_[i], *table_.params()[i], update);
}

void Moments::encode(const Read& read) {
  std::exception_ptr error;
  for (size_t batch = 0; batch < batches_.size(); ++batch) {
    for (const size_t i : batches_[batch]) {
      const ShardedParam& param = *table_.params()[i];
      for (Kept& slot : rows_[i].slots) {
        if (slot.type != MomentType::kInt8) continue;
        slot.open = at::zeros_like(param.value);
        try {
          if (!error && slot.open.numel() > 0) read(i, slot.stored.slot, slot.open);
        } catch (...) {
          error = std::current_exception();  // the others wait for this rank's scales
        }
      }
    }
    close(batch, 0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tessera
