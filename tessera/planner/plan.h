#pragma once

// What a run will be, known without devices: who is where, what each rank holds and sends, how long
// the data last.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/layout/batch_plan.h"
#include "tessera/layout/parallel_dims.h"
#include "tessera/planner/context_plan.h"
#include "tessera/planner/seconds/seconds_plan.h"

namespace tessera {

/// One model chunk of a pipeline stage.
struct ChunkPlan {
  int64_t virtual_stage = 0;
  int64_t first_layer = 0;  // decoder layers [first_layer, last_layer]
  int64_t last_layer = 0;
  bool embedding = false;
  bool head = false;       // final norm, head, loss; also the multi-token prediction layers
  int64_t parameters = 0;  // trainable elements, uncut; a tied copy on a second stage counts there

  bool operator==(const ChunkPlan&) const = default;
};

struct StagePlan {
  std::vector<ChunkPlan> chunks;  // in the order of their virtual stages

  bool operator==(const StagePlan&) const = default;
};

/// Bytes of one rank. Weights, gradients and moments are exact: the rank's part of every parameter,
/// and the selection biases of its routers, which no gradient moves.
struct MemoryPlan {
  int64_t parameters = 0;  // elements
  int64_t weights = 0;     // masters: float64 for a float64 model, else float32
  int64_t gradients = 0;   // in the masters' dtype
  int64_t moments = 0;     // of the optimizer
  /// Most that full weights gathered for use occupy at once: two neighbouring units (one is
  /// prefetched), or all units under `never`.
  int64_t gathered = 0;
  /// At the fullest moment of a step: what the micro-batches in flight keep, their arrays, and what
  /// the operation at hand needs. As the layers are known to keep it; see call_tapes.h.
  int64_t activations = 0;
  /// When the optimizer begins: masters, moments, gradients and what the batch leaves.
  int64_t before_update = 0;
  /// Most that the optimizer needs beside that: moments that are wide for the moment, matrices that
  /// are gathered and iterated.
  int64_t update = 0;
  /// The most at one time. Less than the sum of the above where they are not full at once.
  int64_t peak = 0;

  bool operator==(const MemoryPlan&) const = default;
};

/// What a rank sends over the groups of one axis in a step. Bytes as an ideal algorithm sends them:
/// all-gather (n-1) x own part, reduce-scatter all but the own part, all-reduce 2(n-1)/n x tensor.
struct TrafficPlan {
  struct Count {
    int64_t calls = 0;
    int64_t bytes = 0;

    bool operator==(const Count&) const = default;
  };
  std::map<std::string, Count> operations;  // "all_gather", "reduce_scatter", ...

  int64_t bytes() const;
  bool operator==(const TrafficPlan&) const = default;
};

/// The simulated timetable of a step, with layers as the unit of cost and messages that cost
/// nothing.
struct PipelinePlan {
  int64_t micro_batches = 1;
  double idle_over_ideal = 0.0;           // idle time over working time, all ranks together
  std::vector<double> idle_share;         // [pp] idle time over the time of the step
  std::vector<int64_t> peak_live_chunks;  // [pp] (chunk, micro-batch) pairs in flight at most
  std::string order;                      // forwards and backwards, a line a rank
  std::string table;                      // the same as a timetable, a row a rank
  /// A `pipeline_parallel_layers_per_stage` that idles less, and how much; empty: none does.
  std::vector<std::string> better_layers;
  double better_idle_over_ideal = 0.0;
};

/// Tokens on their way to experts, with even routing: what the busiest rank sends in a step,
/// forward and backward, without recomputation.
struct ExpertPlan {
  struct Bytes {
    int64_t in_node = 0;  // to ranks of the same node
    int64_t between = 0;  // to other nodes
  };
  int64_t experts = 0;  // of a layer
  int64_t experts_of_rank = 0;
  int64_t layers = 0;            // with experts, of the stage that has most
  int64_t nodes = 1;             // of npu_nums_per_device ranks, in an ep group
  Bytes all_to_all;              // alltoall
  std::optional<Bytes> by_node;  // alltoall_deredundancy, where it is legal

  /// Between nodes de-redundancy sends less.
  bool pays() const { return by_node && by_node->between < all_to_all.between; }
};

/// What one rank does in a step for an optimizer that needs whole matrices.
struct MatrixPlan {
  int64_t matrices = 0;  // that it iterates on
  int64_t rounds = 0;    // of messages, the same on every rank of the stage
  double flops = 0.0;    // of its iterations
  int64_t sent = 0;      // bytes: parts of others' matrices, and results of its own
  /// Bytes beside masters, moments and gradients, as this processor iterates (in bfloat16 where it
  /// has units for it).
  int64_t memory = 0;
};

struct DataPlan {
  int64_t samples = 0;         // in the order
  double steps_in_data = 0.0;  // samples over the effective batch
  int64_t passes = 1;          // over the order, the last may be partial
  std::string problem;         // why there is nothing to say: no file, damaged, too small
  std::string warning;         // more steps are asked for than there are data
};

/// A level of a batch that grows (training.rampup_batch_size).
struct LevelPlan {
  BatchLevel level;
  int64_t micro_batches = 1;
  int64_t peak_memory = 0;       // bytes of the rank with most
  double idle_over_ideal = 0.0;  // of the pipeline

  bool operator==(const LevelPlan&) const = default;
};

struct Plan {
  std::string model_type;
  ParallelDims dims;
  BatchPlan batch;                // in the end, where it grows; so is all that follows from it
  std::vector<LevelPlan> levels;  // of a batch that grows: those that the run goes through
  int64_t steps = 0;
  int64_t seq_length = 0;
  int64_t parameters = 0;          // trainable, of the model, tied ones once
  double flops_per_step = 0.0;     // as model_flops counts, of the whole world
  std::vector<StagePlan> stages;   // [pp]
  std::vector<MemoryPlan> memory;  // [world]
  /// [world] What the rank sends in a step, by axis: weights, gradients and activations; axes over
  /// which it sends nothing are left out. Not counted are a few numbers a step (token count, norm)
  /// and what alltoall_deredundancy sends over ep (see `experts`).
  std::vector<std::map<Axis, TrafficPlan>> traffic;
  std::vector<MatrixPlan> matrices;      // [world]; empty: the optimizer needs none whole
  std::optional<ContextPlan> context;    // cp > 1
  std::optional<ExpertPlan> experts;     // ep > 1
  std::optional<PipelinePlan> pipeline;  // pp > 1
  std::optional<SecondsPlan> seconds;    // where a machine is known; see plan_seconds
  DataPlan data;
};

/// The plan of a configuration that is valid at `world` ranks (see preflight). Opens the .idx files
/// only, and not even those when `data` says what plan_data() found before. `processes`: of the
/// memory of CPU ranks, see plan_memory. Throws ConfigError when `config` is not valid.
Plan make_plan(const Config& config, int64_t world, bool processes = false,
               std::optional<DataPlan> data = std::nullopt);

/// One screen for a person.
std::string to_text(const Plan& plan);

/// The timeline of a step's pipeline as a standalone SVG file. Throws ConfigError without a
/// pipeline.
std::string pipeline_svg(const Config& config, int64_t world);

/// The whole plan as a JSON object. Groups are lists of ranks by axis.
std::string to_json(const Plan& plan);

}  // namespace tessera
