#!/usr/bin/env python3
"""The validation loss of a folder that `tessera export` wrote against that of Hugging Face's `transformers` on the same sequences, in float32.

    python benchmarks/evaluation_compare.py --case tests/cases/llama_sgd64 [--tessera build/release/bin/tessera] [--keep FILE]

Needs `pip install transformers torch`. Trains five steps of a case in float32, exports the checkpoint, evaluates the folder on the first samples of
the case's data, and computes the loss of the same samples with transformers. The exit code is 1 if they differ by more than 1e-5 of the loss."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

FLOAT32 = ["params", "compute", "embedding_params", "layernorm_compute"]


def first_samples(case):
    """Tokens, labels and masks of the first global batch, in the order of training."""
    step = json.loads((case / "expected_samples.json").read_text())[0]
    return [torch.tensor(step[name]) for name in ("input_ids", "labels", "loss_mask")]


def loss_of(folder, case):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids, labels, mask = first_samples(case)
    with torch.no_grad():
        logits = model(ids).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return ((losses * mask.flatten()).double().sum() / mask.sum()).item(), int(mask.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/release/bin/tessera")
    parser.add_argument("--case", type=Path, default=Path("tests/cases/llama_sgd64"))
    parser.add_argument("--keep", type=Path, help="writes the loss that transformers computes for the case's own model there")
    options = parser.parse_args()
    case, tessera = options.case.resolve(), str(Path(options.tessera).resolve())
    if options.keep:
        loss, tokens = loss_of(case / "model", case)
        options.keep.write_text(json.dumps({"loss": loss, "tokens": tokens}) + "\n")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        samples = 10 * len(first_samples(case)[0])  # those of the training, so that they are dealt in its order
        data = f"eval_dataset={{dataloader: {{sizes: [0, {samples}, 0], config: {{data_path: ['{case}/data/train']}}}}}}"
        sets = [data, "training.steps=5", "training.eval_iters=1", "checkpoint.enable_save=true", f"checkpoint.save_path={folder}/save", f"output_dir={folder}/out", *(f"model.{name}_dtype=float32" for name in FLOAT32)]

        def run(*command):
            out = subprocess.run([tessera, *command], cwd=case, stdout=subprocess.PIPE, text=True)
            if out.returncode != 0:
                sys.exit(f"tessera {command[0]} ended with {out.returncode}\n{out.stdout[-2000:]}")
            return out.stdout

        flags = [f"--set={s}" for s in sets]
        run("train", "--config", "config.yaml", *flags)
        run("export", "--checkpoint", f"{folder}/save", "--output", f"{folder}/model")
        ours = json.loads(run("evaluate", "--config", "config.yaml", "--model", f"{folder}/model", "--json", *flags))
        theirs, tokens = loss_of(folder / "model", case)
    found = ours["valid"]
    difference = abs(found["loss"] - theirs) / theirs
    print(f"tessera {found['loss']:.8f}, transformers {theirs:.8f} on {tokens} labels: {difference:.1e} of it")
    sys.exit(0 if difference <= 1e-5 else 1)


if __name__ == "__main__":
    main()
