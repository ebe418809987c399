#!/usr/bin/env python3
"""Holds predicted seconds to tables that others published (benchmarks/published.json).

  published.py TESSERA     two constants (share of peak that products reach, share of the bytes of operations
                           without products) are fitted on the two rows marked `fit`; the others count

Prints every row with its error and how many lie within 20 %.
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = {
    "8B": (4096, 14336, 32, 32, 8),
    "70B": (8192, 28672, 80, 64, 8),
    "405B": (16384, 53248, 126, 128, 8),
}
LENGTH = 8192


def config(row):
    hidden, width, layers, heads, kv = MODELS[row["model"]]
    pp, chunks = row.get("pp", 1), row.get("chunks", 1)
    parts = pp * chunks
    text = f"""
checkpoint: {{enable_save: false}}
lr_scheduler: {{type: ConstantWarmUpLR, learning_rate: 1.0e-4, warmup_steps: 0}}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config: {{data_path: [none], split: "1,0,0", seq_length: {LENGTH}, create_attention_mask: false}}
training: {{steps: 1, local_batch_size: {row.get('local', 1)}, global_batch_size: {row['batch']}}}
parallelism:
  tensor_parallel: {row.get('tp', 1)}
  context_parallel: {row.get('cp', 1)}
  pipeline_parallel: {pp}
  pipeline_parallel_interleave_num: {chunks}
"""
    if pp > 1:
        cuts = [layers * i // parts for i in range(parts + 1)]
        stages = [", ".join(f"{cuts[c * pp + s]}-{cuts[c * pp + s + 1] - 1}"
                            if cuts[c * pp + s + 1] - 1 > cuts[c * pp + s] else f"{cuts[c * pp + s]}"
                            for c in range(chunks)) for s in range(pp)]
        text += f"  pipeline_parallel_layers_per_stage: {json.dumps(stages)}\n"
    if row.get("recompute"):
        text += f"recompute: {{mode: full, full_recompute_layer: [\"0-{layers - 1}\"]}}\n"
    return text + f"""
model:
  model_type: llama
  vocab_size: 128256
  hidden_size: {hidden}
  intermediate_size: {width}
  num_hidden_layers: {layers}
  num_attention_heads: {heads}
  num_key_value_heads: {kv}
  head_dim: {hidden // heads}
  seq_length: {LENGTH}
  max_position_embeddings: {LENGTH}
  compute_dtype: bfloat16
  use_attn_mask_compression: true
"""


def predicted(program, row, products, fusion):
    """Tokens a second of a rank, and MFU."""
    with tempfile.TemporaryDirectory() as folder:
        path, fitted = os.path.join(folder, "c.yaml"), os.path.join(folder, "m.yaml")
        with open(path, "w") as file:
            file.write(config(row))
        with open(fitted, "w") as file:
            # Fused kernels pass a third of the bytes of single ones through memory.
            share = fusion / (3.0 if row["compile"] else 1.0)
            file.write(f"fusion: {min(1.0, share):.6f}\ncompute:\n  bfloat16:\n"
                       f"    products: [[4096, {products:.6f}]]\n")
        command = [program, "plan", "--config", path, "--ranks", str(row["ranks"]), "--json", "--machine",
                   os.path.join(HERE, "..", "machines", "h100_sxm.yaml"), "--machine", fitted]
        out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{row['name']}: {out.stdout}{out.stderr}")
    seconds = json.loads(out.stdout)["seconds"]
    return seconds["tokens_per_second"] / row["ranks"], seconds["mfu"]


def fit(program, rows):
    """Both constants, by halving in turn: products by the compiled row, fusion by the other one."""
    products, fusion = 0.6, 0.5
    eager = next(row for row in rows if row.get("fit") and not row["compile"])
    fused = next(row for row in rows if row.get("fit") and row["compile"])
    for _ in range(6):
        low, high = 0.1, 0.9
        for _ in range(12):
            products = (low + high) / 2
            low, high = (products, high) if predicted(program, fused, products, fusion)[0] < fused["tokens"] else (low, products)
        low, high = 0.01, 1.0
        for _ in range(12):
            fusion = (low + high) / 2
            low, high = (low, fusion) if predicted(program, eager, products, fusion)[0] < eager["tokens"] else (fusion, high)
    return products, fusion


def main():
    program = sys.argv[1]
    with open(os.path.join(HERE, "published.json")) as file:
        table = json.load(file)
    products, fusion = fit(program, table["rows"])
    print(f"fitted on two rows: products reach {products:.3f} of peak, {fusion:.3f} of the bytes between products")
    within = counted = 0
    for row in table["rows"] + table["other"]:
        tokens, mfu = predicted(program, row, products, fusion)
        value, said = (mfu, row["mfu"]) if "mfu" in row else (tokens, row["tokens"])
        error = value / said - 1
        mark = "fitted" if row.get("fit") else "within" if abs(error) <= 0.2 else "MISS"
        counted += mark != "fitted"
        within += mark == "within"
        print(f"{row['name']:60} said {said:10.4g} predicted {value:10.4g} {100 * error:+6.1f} %  {mark}")
    print(f"{within} of {counted} within 20 %")


if __name__ == "__main__":
    main()
