#!/usr/bin/env python3
"""Whether PEFT and this program read each other's adapters (needs torch, transformers, peft).

    python benchmarks/adapters_compare.py --program build/release/bin/tessera \
        --case tests/cases/lora_qwen3_64

Trains the case, exports its adapters and the merged model, and compares logits of PEFT over base and
adapters with those of transformers over the merged model (1e-5, float32). Then PEFT makes adapters of
its own over the same base, and both programs tell the loss of the same tokens (1e-5, float32).
"""

import argparse
import json
import pathlib
import struct
import subprocess
import tempfile

import numpy
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def base_model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def windows_of(tokens, length):
    """Samples of one more token than `length`, the last of one the first of the next."""
    return torch.stack([tokens[first : first + length + 1] for first in range(0, len(tokens) - length, length)])


def write_document(prefix, tokens):
    """A token file of one document, as Megatron has them."""
    tokens.to(torch.int32).numpy().tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, 1, 2))
        out.write(numpy.array([len(tokens)], dtype=numpy.int32).tobytes())
        out.write(numpy.array([0], dtype=numpy.int64).tobytes())
        out.write(numpy.array([0, 1], dtype=numpy.int64).tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--case", type=pathlib.Path, required=True)
    options = parser.parse_args()
    case, program = options.case.resolve(), options.program.resolve()
    base = case / "model"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        run(program, "train", "--config", case / "config.yaml", "--set", f"output_dir={folder / 'out'}",
            "--set", "checkpoint.enable_save=true", "--set", "checkpoint.save_trainable_only=true")
        for kind in ("adapter", "merge"):
            run(program, "export", "--checkpoint", folder / "out/checkpoint", "--output", folder / kind,
                f"--{kind}", "--dtype", "float32")
        data = numpy.fromfile(case / "data" / "train.bin", dtype=numpy.uint16)[: 8 * 64 + 1]
        tokens = torch.tensor(data.astype(numpy.int64))
        rows = windows_of(tokens, 64)
        with torch.no_grad():
            adapted = PeftModel.from_pretrained(base_model(base), folder / "adapter")(rows).logits
            merged = base_model(folder / "merge")(rows).logits
        difference = (adapted - merged).abs().max().item() / merged.abs().max().item()
        print(f"PEFT over our adapters against our merged model: {difference:.1e} of the largest logit")
        assert difference < 1e-5

        torch.manual_seed(1)
        wanted = json.loads((case / "adapter" / "adapter_config.json").read_text())
        own = get_peft_model(base_model(base), LoraConfig(
            r=6, lora_alpha=9, target_modules=wanted["target_modules"], init_lora_weights=False))
        own.save_pretrained(folder / "own")
        with torch.no_grad():
            logits = own.eval()(rows[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
        write_document(folder / "tokens", tokens)
        sets = json.dumps([{"name": "rows", "dataloader": {"sizes": [0, len(rows), 0],
                                                           "config": {"data_path": [str(folder / "tokens")]}}}])
        text = run(program, "evaluate", "--config", case / "config.yaml", "--model", base, "--adapter", folder / "own",
                   "--set", f"eval_dataset={sets}", "--json")
        ours = json.loads(text)["rows"]["loss"]
        print(f"loss over PEFT's own adapters: PEFT {loss:.8f}, this program {ours:.8f}")
        assert abs(ours / loss - 1) < 1e-5


if __name__ == "__main__":
    main()
