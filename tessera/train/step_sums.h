#pragma once

// What the ranks add up at the end of a step, as one message.

#include <ATen/core/Tensor.h>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/model_config.h"
#include "tessera/nn/layer_context.h"
#include "tessera/train/metrics.h"

namespace tessera {

/// Own shares in, sums over the world out.
struct StepSums {
  double loss = 0;
  double squares = 0;  // of the gradient norm
  double stop = 0;     // ranks that were asked to stop
  double writing = 0;  // ranks that still write a checkpoint
  double mtp_loss = 0;
  double load_balance = 0;  // over layers, without the coefficient
  double z_loss = 0;
  at::Tensor memory;             // [2, world] float64 (exact): bytes of tensors, now and at most
  at::Tensor times;              // [2, world] float64: of the step before, see take_times
  at::Tensor tokens_per_expert;  // [layers, experts] float64 (exact); undefined without experts

  /// Shares of this rank. The ranks of a tp group compute the same loss: one of them counts it.
  StepSums(const Sinks& sinks, double squares, bool stop, const ModelConfig& model,
           const DeviceMesh& mesh);
  /// What this rank uses since the last call.
  void take_memory(const DeviceMesh& mesh);
  /// Seconds of this rank: of its step without waits for others, and of that until its batch was
  /// there.
  void take_times(double own, double reading, const DeviceMesh& mesh);
  void sum(const ProcessGroup& world);
  /// Writes losses, counts and memory.
  void report(StepMetrics& metrics, const ModelConfig& model) const;
};

/// Sum of a rank's losses of its micro-batches.
double summed_loss(const Sinks& sinks);

}  // namespace tessera
