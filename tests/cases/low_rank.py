"""A run with low-rank adapters on routed experts, made by the generator of the reference cases:

    python make_cases.py --spec low_rank.py --out DIR

Same definitions and tolerances as the other cases (README.md). Model and data are those of qwen3_moe64.
"""

import case_specs
from case_specs import lora


def of(name: str) -> dict:
    return next(spec for spec in case_specs.CASES if spec["name"] == name)


_update = {key: of("lora_qwen3_64")[key] for key in ("training", "optimizer", "lr_scheduler")}

CASES = [
    {
        **of("qwen3_moe64"), **_update, "name": "lora_qwen3_moe64",
        "note": "LoRA on q, o and the gate, up and down of every expert of a frozen Qwen3-MoE, from given A and B; AdamW, clipping, 2 micro-batches",
        "lora": lora("q_proj", "o_proj", "gate_proj", "up_proj", "down_proj", seed=53),
    },
]  # fmt: skip
