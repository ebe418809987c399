#include "tessera/config/fields/field.h"

namespace tessera {

namespace {
constexpr double kMaxDegree = 1 << 20;
}

std::vector<Field> parallelism_fields() {
  return {
      TESSERA_FIELD(parallelism.data_parallel_shard, kHonoured,
                    "Ranks that share one copy of the weights (FSDP). -1: all of data parallel; "
                    "less than data parallel: copies of sharded groups (HSDP)."),
      TESSERA_UNUSED_FIELD("parallelism.data_parallel_shard_strategy", std::string,
                           "Parameters, gradients and optimizer state are always sharded."),
      TESSERA_FIELD(parallelism.reshard_after_forward_policy, kHonoured,
                    "Free gathered weights after forward. default: always without a pipeline, "
                    "never with one.")
          .one_of("always, never, default"),
      TESSERA_FIELD(parallelism.cpu_offload, kHonoured,
                    "Shards, gradients and moments on the host, where those of CPU ranks are "
                    "anyway; not built for ranks with a CUDA device."),
      TESSERA_FIELD(parallelism.disable_gradient_division, kFixed,
                    "Gradients are added up; what divides them divides the loss before."),
      TESSERA_FIELD(parallelism.dense_fsdp_shard_size, kHonoured,
                    "Shard degree of dense weights; only null or dp_shard x cp."),

      TESSERA_FIELD(parallelism.tensor_parallel, kHonoured,
                    "Ranks that share each layer's matrices; brings sequence parallelism.")
          .between(1, kMaxDegree),
      TESSERA_FIELD(parallelism.enable_mc2, kHonoured,
                    "Gathers and reductions of tensor parallelism go on behind its products where "
                    "ranks are processes."),
      TESSERA_FIELD(parallelism.enable_loss_parallel, kHonoured,
                    "With tensor parallelism the loss is taken from logits that stay cut by "
                    "vocabulary; false gathers them first: same result, more bytes and memory."),
      TESSERA_UNUSED_FIELD("parallelism.sequence_parallel", bool,
                           "Sequence parallelism follows tensor_parallel."),

      TESSERA_FIELD(parallelism.context_parallel, kHonoured, "Ranks that share each sequence.")
          .between(1, kMaxDegree),
      TESSERA_FIELD(parallelism.context_parallel_method, kHonoured,
                    "colossal exchanges keys and values, ulysses trades sequence for heads, "
                    "hybrid does both.")
          .one_of("colossal, ulysses, hybrid")
          .any_case(),
      TESSERA_FIELD(parallelism.context_parallel_async, kHonoured,
                    "Exchange q, k and v while the projections run."),
      TESSERA_FIELD(parallelism.ulysses_degree_in_cp, kHonoured,
                    "ulysses: context_parallel or null. hybrid: 1 < degree < context_parallel, "
                    "a divisor of it. colossal: no effect."),
      TESSERA_FIELD(parallelism.context_parallel_mask_type, kHonoured, "Only causal.")
          .one_of("causal")
          .any_case(),
      TESSERA_FIELD(parallelism.context_parallel_exchange, kHonoured,
                    "How colossal exchanges keys and values; auto: by size.")
          .one_of("auto, ring, allgather"),
      TESSERA_FIELD(parallelism.context_parallel_balance, kHonoured,
                    "Which tokens a rank takes; auto: equal work where the length allows.")
          .one_of("auto, head_tail, contiguous"),

      TESSERA_FIELD(parallelism.pipeline_parallel, kHonoured, "Pipeline stages.")
          .between(1, kMaxDegree),
      TESSERA_FIELD(parallelism.pipeline_parallel_layers_per_stage, kHonoured,
                    "Needed with a pipeline: auto, or one string of layer ranges a stage "
                    "(\"0-1, 4-8\": one range a chunk)."),
      TESSERA_FIELD(parallelism.pipeline_parallel_interleave_num, kHonoured,
                    "Chunks of layers that a stage holds.")
          .between(1, kMaxDegree),
      TESSERA_FIELD(parallelism.pipeline_parallel_overlap_p2p, kHonoured,
                    "Send and receive while computing."),
      TESSERA_FIELD(
          parallelism.pipeline_parallel_overlap_b_f, kHonoured,
          "Run a backward in turns with a forward: where ranks are processes, each computes "
          "while the other waits. Asks for the interleaved warm-up."),
      TESSERA_FIELD(parallelism.pipeline_parallel_schedule, kReserved,
                    "Interleaved 1F1B with several chunks a stage, 1F1B with one.")
          .one_of("1f1b, interleaved_1f1b, gpipe")
          .any_case(),
      TESSERA_FIELD(parallelism.pipeline_parallel_enable_dxdw_split, kReserved,
                    "Backward is not split."),
      TESSERA_FIELD(parallelism.pipeline_parallel_microbatch_size, kReserved,
                    "The number of micro-batches is derived from the batch sizes."),
      TESSERA_UNUSED_FIELD("parallelism.pipeline_parallel_p2p_transport", std::string,
                           "There is one transport."),

      TESSERA_FIELD(parallelism.expert_parallel, kHonoured,
                    "Ranks that share the experts; divides dp_shard x cp x tp.")
          .between(1, kMaxDegree),
      TESSERA_FIELD(parallelism.moe_token_dispatcher_type, kHonoured,
                    "alltoall, or alltoall_deredundancy: gather between nodes, all-to-all inside "
                    "(expert_parallel a multiple of npu_nums_per_device).")
          .one_of("alltoall, alltoall_deredundancy"),
      TESSERA_FIELD(parallelism.npu_nums_per_device, kHonoured,
                    "Devices of a node, for alltoall_deredundancy.")
          .between(1, kMaxDegree),
      TESSERA_UNUSED_FIELD("parallelism.expert_parallel_async_d2h", bool,
                           "Counts are read back as needed."),
      TESSERA_UNUSED_FIELD("parallelism.expert_parallel_use_safe_tokens", bool,
                           "Empty experts need no padding."),
  };
}

}  // namespace tessera
