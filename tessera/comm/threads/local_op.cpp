#include "tessera/comm/threads/local_op.h"

#include <algorithm>
#include <array>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/tensor_bytes.h"

namespace tessera {
namespace {

// A unit of copying reads this much (it stays in the second-level cache while it is written to all
// receivers); a unit of summing reads this much of every member.
constexpr int64_t kUnitBytes = 128 << 10;
constexpr int64_t kMaxMembers = 1024;

const std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

std::byte* mutable_data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

}  // namespace

LocalOp::LocalOp(int members, int64_t number) : slots(members), number(number), waiting(members) {
  TESSERA_CHECK(members <= kMaxMembers, "a world of ", members, " threads");
}

void LocalOp::add_units(int tensor, int from, int to, int64_t extent, int64_t grain) {
  for (int64_t begin = 0; begin < extent; begin += grain) {
    units_.push_back({tensor, from, to, begin, std::min(extent, begin + grain)});
  }
}

void LocalOp::plan() {
  const LocalCall& first_call = slots[0].call;
  const int tensors = static_cast<int>(signature.kind() == OpKind::kBroadcast ||
                                               signature.kind() == OpKind::kAllReduce
                                           ? first_call.out.size()
                                           : first_call.in.size());
  for (int i = 0; i < tensors; ++i) {
    switch (signature.kind()) {
      case OpKind::kAllGather:
        for (int from = 0; from < size(); ++from) {
          const auto bytes = static_cast<int64_t>(slots[from].call.in[i].nbytes());
          add_units(i, from, 0, bytes, kUnitBytes);
          traffic_ += bytes * (size() + 1);
        }
        break;
      case OpKind::kReduceScatter: {
        const at::Tensor& full = first_call.in[i];
        kernels_.push_back(
            reduce_kernel(first_call.out[i].scalar_type(), full.scalar_type(), ReduceOp::kSum));
        for (int to = 0; to < size(); ++to) {
          add_units(i, 0, to, slots[to].call.out[i].numel(),
                    kUnitBytes / static_cast<int64_t>(full.element_size()));
        }
        traffic_ += static_cast<int64_t>(full.nbytes()) * (size() + 1);
        break;
      }
      case OpKind::kAllReduce: {
        const at::Tensor& tensor = first_call.out[i];
        kernels_.push_back(
            reduce_kernel(tensor.scalar_type(), tensor.scalar_type(), first_call.reduce));
        add_units(i, 0, 0, tensor.numel(),
                  kUnitBytes / static_cast<int64_t>(tensor.element_size()));
        traffic_ += 2 * static_cast<int64_t>(tensor.nbytes()) * size();
        break;
      }
      case OpKind::kBroadcast: {
        const auto bytes = static_cast<int64_t>(first_call.out[i].nbytes());
        add_units(i, first_call.root, 0, bytes, kUnitBytes);
        traffic_ += bytes * size();
        break;
      }
      case OpKind::kAllToAll: plan_all_to_all(); break;
      case OpKind::kBarrier:
      case OpKind::kSplit: break;
    }
  }
}

void LocalOp::plan_all_to_all() {
  const int n = size();
  const int64_t row = row_bytes(slots[0].call.in[0]);
  in_offsets_.resize(n * n);
  out_offsets_.resize(n * n);
  for (int member = 0; member < n; ++member) {
    int64_t in_at = 0;
    int64_t out_at = 0;
    for (int peer = 0; peer < n; ++peer) {
      const int64_t rows = slots[member].call.in_splits[peer];
      const int64_t expected = slots[peer].call.out_splits[member];
      TESSERA_CHECK(rows == expected, "all_to_all: member ", member, " sends ", rows,
                    " rows to member ", peer, ", which expects ", expected);
      in_offsets_[member * n + peer] = in_at * row;
      out_offsets_[member * n + peer] = out_at * row;
      in_at += rows;
      out_at += slots[member].call.out_splits[peer];
      add_units(0, member, peer, rows * row, kUnitBytes);
      traffic_ += 2 * rows * row;
    }
  }
}

bool LocalOp::run_units() {
  bool last = false;
  for (;;) {
    const int64_t index = next_.fetch_add(1);
    if (index >= num_units()) return last;
    execute(units_[index]);
    last = finished_.fetch_add(1) + 1 == num_units();
  }
}

void LocalOp::execute(const Unit& unit) const {
  switch (signature.kind()) {
    case OpKind::kAllGather: return all_gather(unit);
    case OpKind::kReduceScatter: return reduce_scatter(unit);
    case OpKind::kAllReduce: return all_reduce(unit);
    case OpKind::kAllToAll: return all_to_all(unit);
    case OpKind::kBroadcast: return broadcast(unit);
    case OpKind::kBarrier:
    case OpKind::kSplit: return;
  }
}

void LocalOp::all_gather(const Unit& unit) const {
  const std::byte* from = data_of(slots[unit.from].call.in[unit.tensor]) + unit.begin;
  const at::Tensor& any_full = slots[0].call.out[unit.tensor];
  const int64_t offset =
      part_of(any_full.size(0), size(), unit.from).begin * row_bytes(any_full) + unit.begin;
  for (const Slot& slot : slots) {
    copy_bytes(mutable_data_of(slot.call.out[unit.tensor]) + offset, from, unit.end - unit.begin);
  }
}

void LocalOp::reduce_scatter(const Unit& unit) const {
  const LocalCall& owner = slots[unit.to].call;
  const at::Tensor& full = owner.in[unit.tensor];
  const at::Tensor& shard = owner.out[unit.tensor];
  const auto in_size = static_cast<int64_t>(full.element_size());
  const auto out_size = static_cast<int64_t>(shard.element_size());
  const int64_t offset =
      part_of(full.size(0), size(), unit.to).begin * row_bytes(full) + unit.begin * in_size;
  std::array<const void*, kMaxMembers> inputs;
  for (int m = 0; m < size(); ++m) inputs[m] = data_of(slots[m].call.in[unit.tensor]) + offset;
  kernels_[unit.tensor](mutable_data_of(shard) + unit.begin * out_size, owner.accumulate,
                        inputs.data(), size(), unit.end - unit.begin);
}

void LocalOp::all_reduce(const Unit& unit) const {
  const auto element = static_cast<int64_t>(slots[0].call.out[unit.tensor].element_size());
  constexpr int64_t kBlockBytes = 16 << 10;  // summed in a buffer, then written to all members
  alignas(64) std::byte sum[kBlockBytes];
  std::array<const void*, kMaxMembers> inputs;
  const int64_t end = unit.end * element;
  for (int64_t at = unit.begin * element; at < end; at += kBlockBytes) {
    const int64_t bytes = std::min(kBlockBytes, end - at);
    for (int m = 0; m < size(); ++m) inputs[m] = data_of(slots[m].call.out[unit.tensor]) + at;
    kernels_[unit.tensor](sum, false, inputs.data(), size(), bytes / element);
    for (const Slot& slot : slots) {
      copy_bytes(mutable_data_of(slot.call.out[unit.tensor]) + at, sum, bytes);
    }
  }
}

void LocalOp::all_to_all(const Unit& unit) const {
  const int n = size();
  copy_bytes(
      mutable_data_of(slots[unit.to].call.out[0]) + out_offsets_[unit.to * n + unit.from] +
          unit.begin,
      data_of(slots[unit.from].call.in[0]) + in_offsets_[unit.from * n + unit.to] + unit.begin,
      unit.end - unit.begin);
}

void LocalOp::broadcast(const Unit& unit) const {
  const std::byte* from = data_of(slots[unit.from].call.out[unit.tensor]) + unit.begin;
  for (const Slot& slot : slots) {
    copy_bytes(mutable_data_of(slot.call.out[unit.tensor]) + unit.begin, from,
               unit.end - unit.begin);
  }
}

}  // namespace tessera
