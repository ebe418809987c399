// Rules of expert_parallel, of its dispatchers and of the auxiliary loss against the layout.

#include "tessera/layout/batch_plan.h"
#include "tessera/rules/checker.h"

namespace tessera {

void check_expert_parallel(Checker& check) {
  const ParallelismConfig& p = check.config.parallelism;
  const ModelConfig& m = check.config.model;
  constexpr std::string_view kField = "parallelism.expert_parallel";
  if (check.good(
          {kField, "parallelism.npu_nums_per_device", "parallelism.moe_token_dispatcher_type"}) &&
      p.moe_token_dispatcher_type == "alltoall_deredundancy") {
    const int64_t node = p.npu_nums_per_device;
    if (p.expert_parallel < node || p.expert_parallel % node != 0) {
      const int64_t below = p.expert_parallel / node * node;
      check.error(kField,
                  "must be a multiple of npu_nums_per_device (" + std::to_string(node) +
                      ") with alltoall_deredundancy",
                  (below > 0 ? std::to_string(below) + ", " : "") + std::to_string(below + node));
    }
  }
  if (!check.model_ok || !check.good({kField, "model.n_routed_experts"})) return;
  if (p.expert_parallel > 1 && !m.is_moe()) {
    check.error(kField, "must be 1 for " + m.model_type + ", which has no experts", "1");
  } else if (m.is_moe() && m.n_routed_experts % p.expert_parallel != 0) {
    check.error(kField, "must divide n_routed_experts (" + std::to_string(m.n_routed_experts) + ")",
                nearest_divisors(m.n_routed_experts, p.expert_parallel));
  }
  if (m.is_moe() && m.moe_aux_loss_coeff > 0 &&
      m.moe_router_load_balancing_type == "global_aux_loss" && check.dims_ok &&
      check.good({"training.local_batch_size", "training.global_batch_size"})) {
    const BatchPlan plan = make_batch_plan(check.config, check.dims);
    if (plan.micro_batches > 1) {
      check.error("model.moe_router_load_balancing_type",
                  "global_aux_loss needs one micro-batch a step (here " +
                      std::to_string(plan.micro_batches) + ")",
                  "local_batch_size " + std::to_string(plan.local_batch * plan.micro_batches) +
                      ", or seq_aux_loss");
    }
  }
}

}  // namespace tessera
