#include "tessera/nn/compressed/entry_sight.h"

#include <ATen/ATen.h>

namespace tessera {

namespace {

at::Tensor places(int64_t begin, int64_t end, const at::Device& device) {
  return at::arange(begin, end, at::TensorOptions().dtype(at::kLong).device(device));
}

at::Tensor begins_of(const QueryBlock& block, const at::Device& device) {
  return block.begins.to(device).unsqueeze(1);
}

}  // namespace

at::Tensor outside_window(const QueryBlock& block, int64_t window, int64_t first_key, int64_t keys,
                          const at::Device& device) {
  const at::Tensor query = places(block.first, block.end, device).unsqueeze(1);
  const at::Tensor key = places(first_key, first_key + keys, device).unsqueeze(0);
  const at::Tensor hidden = at::logical_or(key > query, key <= query - window);
  return block.begins.defined() ? at::logical_or(hidden, key < begins_of(block, device)) : hidden;
}

at::Tensor hidden_entries(const QueryBlock& block, int64_t ratio, int64_t entries,
                          const at::Device& device) {
  const at::Tensor query = places(block.first, block.end, device).unsqueeze(1);
  const at::Tensor begin = places(0, entries, device).unsqueeze(0) * ratio;
  const at::Tensor hidden = begin + ratio > query + 1;
  return block.begins.defined() ? at::logical_or(hidden, begin < begins_of(block, device)) : hidden;
}

}  // namespace tessera
