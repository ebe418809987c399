#include "tessera/train/step_context.h"

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

int64_t unmasked_tokens(const std::vector<MicroBatch>& batch) {
  int64_t sum = 0;
  for (const MicroBatch& micro_batch : batch) sum += micro_batch.unmasked_tokens;
  return sum;
}

int64_t next_unmasked_tokens(const std::vector<MicroBatch>& batch) {
  int64_t sum = 0;
  for (const MicroBatch& micro_batch : batch) sum += micro_batch.next_unmasked_tokens;
  return sum;
}

int64_t real_positions(const std::vector<MicroBatch>& batch) {
  int64_t sum = 0;
  for (const MicroBatch& micro_batch : batch) {
    sum += micro_batch.tokens - std::count(micro_batch.padded.begin(), micro_batch.padded.end(), 1);
  }
  return sum;
}

std::vector<LayerContext> make_contexts(const std::vector<MicroBatch>& batch,
                                        const ContextOptions& options, Sinks* sinks) {
  const auto int64_tensor = [&](const std::vector<int64_t>& values) {
    return tensor_of(values, at::kLong).to(options.device);
  };
  const auto byte_tensor = [&](const std::vector<uint8_t>& values) {
    return tensor_of(values, at::kByte).to(options.device);
  };
  std::vector<LayerContext> contexts;
  for (const MicroBatch& b : batch) {
    LayerContext c;
    c.rows = b.rows;
    c.seq_length = b.seq_length;
    c.micro_batch = static_cast<int64_t>(contexts.size());
    c.step = options.step;
    c.seed = options.seed;
    c.timeline = options.timeline;
    c.loss_scale = options.loss_scale;
    c.sample_scale = options.sample_scale;
    c.position_scale = options.position_scale;
    const Range slice = part_of(b.tokens, options.tp_degree, options.tp_rank);
    c.residual_tokens = {slice.begin, slice.end};
    c.token_ids = int64_tensor(b.input_ids);
    c.labels = int64_tensor(b.labels);
    if (!b.next_ids.empty()) {
      c.next_ids = int64_tensor(b.next_ids);
      c.next_labels = int64_tensor(b.next_labels);
      c.next_loss_mask = byte_tensor(b.next_loss_mask);
      c.next_positions = int64_tensor(b.next_position_ids);
      c.next_loss_scale = options.next_loss_scale;
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
    c.sinks = sinks;
    contexts.push_back(std::move(c));
  }
  return contexts;
}

}  // namespace tessera
