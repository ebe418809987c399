#include "tessera/layout/weight_names.h"

#include <string_view>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string_view usual_name(ParamRole role) {
  using enum ParamRole;
  switch (role) {
    case kAttnQ: return "self_attn.q_proj.weight";
    case kAttnK: return "self_attn.k_proj.weight";
    case kAttnV: return "self_attn.v_proj.weight";
    case kAttnO: return "self_attn.o_proj.weight";
    case kAttnQBias: return "self_attn.q_proj.bias";
    case kAttnKBias: return "self_attn.k_proj.bias";
    case kAttnVBias: return "self_attn.v_proj.bias";
    case kAttnOBias: return "self_attn.o_proj.bias";
    case kAttnSink: return "self_attn.sinks";
    case kMlaQA: return "self_attn.q_a_proj.weight";
    case kMlaQABias: return "self_attn.q_a_proj.bias";
    case kMlaQB: return "self_attn.q_b_proj.weight";
    case kMlaKvA: return "self_attn.kv_a_proj_with_mqa.weight";
    case kMlaKvABias: return "self_attn.kv_a_proj_with_mqa.bias";
    case kMlaKvB: return "self_attn.kv_b_proj.weight";
    case kMlpGate: return "mlp.gate_proj.weight";
    case kMlpUp: return "mlp.up_proj.weight";
    case kMlpDown: return "mlp.down_proj.weight";
    case kMlpGateBias: return "mlp.gate_proj.bias";
    case kMlpUpBias: return "mlp.up_proj.bias";
    case kMlpDownBias: return "mlp.down_proj.bias";
    case kRouter: return "mlp.gate.weight";
    case kRouterBias: return "mlp.gate.e_score_correction_bias";
    case kRouterOffset: return "mlp.gate.bias";
    case kExpertGate: return "mlp.experts.{e}.gate_proj.weight";
    case kExpertUp: return "mlp.experts.{e}.up_proj.weight";
    case kExpertDown: return "mlp.experts.{e}.down_proj.weight";
    case kExpertGateBias: return "mlp.experts.{e}.gate_proj.bias";
    case kExpertUpBias: return "mlp.experts.{e}.up_proj.bias";
    case kExpertDownBias: return "mlp.experts.{e}.down_proj.bias";
    case kSharedGate: return "mlp.shared_experts.gate_proj.weight";
    case kSharedUp: return "mlp.shared_experts.up_proj.weight";
    case kSharedDown: return "mlp.shared_experts.down_proj.weight";
    case kSharedExpertGate: return "mlp.shared_expert_gate.weight";
    default: break;
  }
  TESSERA_CHECK(false, "the name of a weight of role ", static_cast<int>(role),
                " is not a matter of its role");
}

}  // namespace

std::string weight_name(ParamRole role, const LayerDesign& design) {
  const auto own = design.weight_names.find(role);
  return own != design.weight_names.end() ? own->second : std::string(usual_name(role));
}

std::string module_of_weight(ParamRole role, const LayerDesign& design) {
  const std::string name = weight_name(role, design);
  const size_t expert = name.find(".{e}");
  return name.substr(0, expert != std::string::npos ? expert : name.rfind('.'));
}

}  // namespace tessera
