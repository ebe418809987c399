#include "tessera/train/make_contexts.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace tessera {
namespace {

template <typename T>
at::Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, type);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<T>());
  return tensor;
}

}  // namespace

StepCounts count(const std::vector<MicroBatch>& batch) {
  StepCounts counts;
  for (const MicroBatch& micro_batch : batch) {
    counts.labels += micro_batch.unmasked_tokens;
    counts.next_labels += micro_batch.next_unmasked_tokens;
    counts.tokens += micro_batch.real_tokens;
  }
  return counts;
}

std::vector<LayerContext> make_contexts(const std::vector<MicroBatch>& batch,
                                        const StepContext& step, int64_t tp_rank,
                                        int64_t tp_degree) {
  const auto int64_tensor = [&](const std::vector<int64_t>& values) {
    return tensor_of(values, at::kLong).to(step.device);
  };
  const auto byte_tensor = [&](const std::vector<uint8_t>& values) {
    return tensor_of(values, at::kByte).to(step.device);
  };
  std::vector<LayerContext> contexts;
  for (const MicroBatch& b : batch) {
    LayerContext c;
    c.rows = b.rows;
    c.seq_length = b.seq_length;
    c.micro_batch = static_cast<int64_t>(contexts.size());
    c.step = &step;
    const Range slice = part_of(b.tokens, tp_degree, tp_rank);
    c.residual_tokens = {slice.begin, slice.end};
    c.token_ids = int64_tensor(b.input_ids);
    c.labels = int64_tensor(b.labels);
    if (!b.next_ids.empty()) {
      c.next_ids = int64_tensor(b.next_ids);
      c.next_labels = int64_tensor(b.next_labels);
      c.next_loss_mask = byte_tensor(b.next_loss_mask);
      c.next_positions = int64_tensor(b.next_position_ids);
    }
    c.loss_mask = byte_tensor(b.loss_mask);
    c.positions = int64_tensor(b.position_ids);
    c.in_sample = int64_tensor(b.place_in_row);
    c.sample_ids = int64_tensor(b.sample_ids).index({int64_tensor(b.row_of_token)});
    if (!b.padded.empty()) c.padded = byte_tensor(b.padded).to(at::kBool);
    // A row that is one document needs no ends: the kernel's causal mask is all there is to say.
    for (const auto& ends : b.document_ends) {
      if (ends.size() > 1) {
        c.document_ends = b.document_ends;
        break;
      }
    }
    c.pieces = b.pieces;
    contexts.push_back(std::move(c));
  }
  return contexts;
}

}  // namespace tessera
