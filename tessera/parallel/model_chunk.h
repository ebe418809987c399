#pragma once

// The part of the model that one pipeline chunk runs: a list of calls (embedding, layers, norm and
// head), each differentiated by itself. Between two calls the graph is cut, so that plain code in
// reading order can gather weights before a call, free them after it and reduce its gradients while
// the next call runs.

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/timeline.h"
#include "tessera/layout/resharding.h"
#include "tessera/nn/layer_context.h"
#include "tessera/parallel/sharded_unit.h"

namespace tessera {

/// Tensors in, tensors out, in one autograd graph.
using CallFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs,
                                                           const LayerContext& context)>;

struct Call {
  std::string name;
  std::vector<ShardedUnit*> units;  // whose weights it uses
  CallFunction forward;
  /// The last `losses` outputs are scalars that belong to the objective: differentiated with seed
  /// one, not passed on (the loss of the head, the auxiliary loss of a mixture of experts).
  size_t losses = 0;
  int64_t layer = -1;                 // index of the decoder layer, else -1
  bool only_trains = false;           // multi-token prediction: look() leaves it out
  bool trains = true;                 // it, or a call before it in the model, has weights to train
  bool trains_before = true;          // a call before it has: its inputs get gradients
  bool recompute = false;             // keep the input only, run forward again in backward
  bool reshard_after_forward = true;  // else the weights stay until the call's backward
};

class ModelChunk {
  struct Saved {                      // one call of one micro-batch
    std::vector<at::Tensor> inputs;   // leaves
    std::vector<at::Tensor> outputs;  // roots; empty when recomputed
  };
  struct Frame {
    std::vector<Saved> calls;
    const LayerContext* context = nullptr;
  };

 public:
  /// `prepare` completes the context of a micro-batch before its first forward on this rank.
  ModelChunk(std::vector<Call> calls, Resharding resharding,
             std::function<void(LayerContext&)> prepare = {});

  /// The forward of one micro-batch, call by call, so that another micro-batch's backward can run
  /// in between. Keeps what the backward needs. Outputs are cut from the graph.
  class ForwardRun {
   public:
    /// Runs the next call; false when there is none left.
    bool next_call();
    /// After the last call.
    std::vector<at::Tensor> take_outputs();

   private:
    friend class ModelChunk;
    ModelChunk* chunk_ = nullptr;
    Frame frame_;
    std::vector<at::Tensor> tensors_;  // inputs of the next call
    size_t next_ = 0;
  };
  class BackwardRun {
   public:
    /// Differentiates the call before; false when there is none left.
    bool next_call();
    /// Gradients of the chunk's inputs; undefined for one without (token ids).
    std::vector<at::Tensor> take_input_grads();

   private:
    friend class ModelChunk;
    ModelChunk* chunk_ = nullptr;
    Frame frame_;
    std::vector<at::Tensor> grads_;  // of the outputs of the call at hand
    size_t left_ = 0;
    bool defer_ = false;
  };

  /// `context` must live until the backward of its micro-batch.
  ForwardRun begin_forward(std::vector<at::Tensor> inputs, LayerContext& context);
  /// From the gradients of the chunk's outputs. `last_micro_batch`: of this chunk in this step.
  BackwardRun begin_backward(std::vector<at::Tensor> output_grads, int64_t micro_batch,
                             bool last_micro_batch);

  /// The forward alone of one micro-batch: keeps nothing, frees what it gathered. Outputs of
  /// multi-token prediction are not made. Returns what the chunk passes on.
  std::vector<at::Tensor> look(std::vector<at::Tensor> inputs, LayerContext& context);

  /// Records what every call does from now on; nullptr: does not. Must outlive the chunk.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }

  /// Waits for the reductions; frees what the policy kept.
  void finish_step();

  /// Micro-batches whose forward has run and whose backward has not begun.
  size_t live() const { return frames_.size(); }
  const std::vector<Call>& calls() const { return calls_; }

 private:
  Saved run(const Call& call, const std::vector<at::Tensor>& inputs, const LayerContext& context,
            bool keep_graph);
  std::vector<at::Tensor> differentiate(size_t call, Saved saved,
                                        std::vector<at::Tensor> output_grads, bool defer);
  void unshard(size_t call);
  void prefetch(size_t call);
  /// Ends a call's use of its weights. Weights that call `next` of this pass uses too stay.
  void end_use(size_t call, bool free, size_t next);

  std::vector<Call> calls_;
  Resharding resharding_;
  std::function<void(LayerContext&)> prepare_;
  std::map<int64_t, Frame> frames_;     // by micro-batch
  std::vector<ShardedUnit*> reducing_;  // whose gradients the last backward made
  Timeline* timeline_ = nullptr;
};

}  // namespace tessera
