"""Runs of further families, made by the generator of the reference cases:

    python make_cases.py --spec more_families.py --out DIR

Same definitions and tolerances as the other cases (README.md).
"""

import json
import re

import reference_model
import torch
from case_specs import case, constant, decoder, gemma3, gpt_oss, gpt_oss_yaml, mistral, olmo2, phi3, without
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import FP4_VALUES, convert_moe_packed_tensors

reference_model.ARCHITECTURES.update(
    gemma2="Gemma2ForCausalLM",
    olmo3="Olmo3ForCausalLM",
    glm4="Glm4ForCausalLM",
    mixtral="MixtralForCausalLM",
)

# Mixtral's files have names of their own.
_MIXTRAL = {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}
_checkpoint_tensors = reference_model.checkpoint_tensors


def checkpoint_tensors(model, of=lambda parameter: parameter):
    tensors = _checkpoint_tensors(model, of)
    if model.config.model_type != "mixtral":
        return tensors
    renamed = {}
    for name, value in tensors.items():
        name = name.replace(".mlp.", ".block_sparse_moe.")
        name = re.sub(r"(experts\.\d+\.)(\w+_proj)", lambda m: m[1] + _MIXTRAL[m[2]], name)
        renamed[name] = value
    return renamed


reference_model.checkpoint_tensors = checkpoint_tensors


# gpt-oss in MXFP4: the experts' weights are brought to what blocks and scales can hold, and the folder holds these.
def mxfp4(weight):
    """[experts, in, out] -> blocks [experts, out, in / 32, 16], scales [experts, out, in / 32]."""
    groups = weight.detach().transpose(1, 2).unflatten(2, (-1, 32))
    exponent = torch.floor(torch.log2(groups.abs().amax(-1, keepdim=True))) - 2
    codes = (groups / 2**exponent).unsqueeze(-1).sub(torch.tensor(FP4_VALUES)).abs().argmin(-1).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, (exponent.squeeze(-1) + 127).to(torch.uint8)


def hold_mxfp4(model):
    for layer in model.model.layers:
        for weight in (layer.mlp.experts.gate_up_proj, layer.mlp.experts.down_proj):
            weight.copy_(convert_moe_packed_tensors(*mxfp4(weight), dtype=torch.float32))


_save = reference_model.save


def save(model, spec, folder):
    _save(model, spec, folder)
    if spec.get("adjust") is not hold_mxfp4:
        return
    tensors = {}
    for name, value in load_file(folder / "model.safetensors").items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name + "_blocks"], tensors[name + "_scales"] = mxfp4(value)
            packed = convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"], dtype=torch.bfloat16)
            assert torch.equal(packed.float(), value)
        else:
            tensors[name] = value
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    config["quantization_config"] = {"modules_to_not_convert": left, "quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


reference_model.save = save


def gemma2(**changes) -> dict:
    defaults = {
        "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }  # fmt: skip
    return without(gemma3(**{**defaults, **changes}), "rope_local_base_freq")


def olmo3(**changes) -> dict:
    defaults = {"sliding_window": 12, "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}
    return olmo2(**{**defaults, **changes})


def glm4(**changes) -> dict:
    return decoder(**{"attention_bias": True, "partial_rotary_factor": 0.5, **changes})


def mixtral(**changes) -> dict:
    defaults = {"num_local_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 32, "sliding_window": None}
    return mistral(**{**defaults, **changes})


_moe = {"moe_router_load_balancing_type": "seq_aux_loss", "moe_aux_loss_coeff": 0.0}
_long = {
    "rope_type": "longrope", "original_max_position_embeddings": 32,
    "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0],
}  # fmt: skip

CASES = [
    case("gemma2_64", "gemma2", "Gemma 2: caps on scores and logits, windows in every second layer",
         model=gemma2(), scheduler=constant(0.1)),
    case("olmo3_64", "olmo3", "OLMo 3: windows in three of four layers", model=olmo3(), model_yaml={"qk_layernorm": True}),
    case("glm4_64", "glm4", "GLM-4: norms after both branches too, neighbours turn, biases on q, k and v", model=glm4()),
    case("mixtral_64", "mixtral", "Mixtral: 6 experts, top 2, no window", model=mixtral(), model_yaml=_moe),
    case("phi3_longrope64", "phi3", "Phi-3 beyond its original length: longrope's long factors",
         model=phi3(rope_scaling=_long, original_max_position_embeddings=32)),
    case("llama_linear64", "llama", "Llama with linear rotary scaling",
         model=decoder(rope_scaling={"rope_type": "linear", "factor": 2.5})),
    case("llama_dynamic64", "llama", "Llama beyond its length: dynamic rotary scaling",
         model=decoder(max_position_embeddings=32, rope_scaling={"rope_type": "dynamic", "factor": 2.0})),
    case("gpt_oss_mxfp4_64", "gpt_oss", "gpt-oss whose folder has the experts in MXFP4; two layers", adjust=hold_mxfp4,
         model=gpt_oss(num_hidden_layers=2), model_yaml=gpt_oss_yaml()),
    case("gemma3_odd64", "gemma3_text", "one kv head, a window that does not divide the sequence, odd widths",
         model=gemma3(num_key_value_heads=1, sliding_window=13, intermediate_size=92, head_dim=18),
         model_yaml={"qk_layernorm": True}, scheduler=constant(0.1)),
]  # fmt: skip
