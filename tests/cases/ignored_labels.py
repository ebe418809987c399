#!/usr/bin/env python3
"""Losses and gradient norms of reference cases with labels of one id left out, by transformers in float64.

Usage: ignored_labels.py CASE ID (python with torch and transformers). Prints a line a step: loss, grad_norm, tokens.
The samples and their masks are those of expected_samples.json, which other software made; a label of the id is taken
out of the mask. The numbers stand in tests/e2e/ignored_labels_test.cpp.
"""

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers

torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double  # transformers computes norms, softmax and routers in float32 otherwise


class TorchInFloat64:
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def open_model(folder: Path):
    family = json.loads((folder / "config.json").read_text())["model_type"]
    module = __import__(f"transformers.models.{family}.modeling_{family}", fromlist=["x"])
    module.torch = TorchInFloat64()
    import transformers.modeling_rope_utils as rope

    rope.torch = TorchInFloat64()
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    ).train()


def attention_bias(ends: list, length: int) -> torch.Tensor:
    """Causal inside each document, for rows whose documents end at `ends`."""
    document = torch.zeros(len(ends), length, dtype=torch.long)
    for row, row_ends in enumerate(ends):
        for end in row_ends:
            document[row, end:] += 1
    seen = document[:, :, None] == document[:, None, :]
    seen &= torch.ones(length, length, dtype=torch.bool).tril()
    return torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))[:, None]


def main() -> None:
    case, ignored = Path(__file__).resolve().parent / sys.argv[1], int(sys.argv[2])
    model = open_model(case / "model")
    for batch in json.loads((case / "expected_samples.json").read_text()):
        tokens, labels, mask = (torch.tensor(batch[key]) for key in ("input_ids", "labels", "loss_mask"))
        length = tokens.shape[1]
        ends = batch.get("document_ends", [[length]] * len(tokens))
        counted = mask.bool() & (labels != ignored)
        logits = model(
            input_ids=tokens,
            position_ids=torch.tensor(batch["position_ids"]),
            attention_mask=attention_bias(ends, length),
        ).logits
        losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        loss = losses[counted].sum() / counted.sum()
        model.zero_grad()
        loss.backward()
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in model.parameters()]))
        print(f"{loss.item():.15g} {norm.item():.15g} {int(counted.sum())}")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.3 * parameter.grad


if __name__ == "__main__":
    main()
