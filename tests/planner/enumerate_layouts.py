#!/usr/bin/env python3
"""Lists every legal layout by itself, from docs/ and not from the sources, and compares the list with
what `tessera plan --search --json` calls legal.

  enumerate_layouts.py TESSERA MACHINE.yaml     exits 1 with the first differences, else prints counts
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile

DENSE = dict(model_type="llama", vocab_size=512, seq_length=64, hidden_size=64, intermediate_size=192,
             num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2, head_dim=8)
EXPERTS = dict(model_type="qwen3_moe", vocab_size=512, seq_length=48, hidden_size=64, intermediate_size=128,
               num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, head_dim=16,
               num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32)
CASES = [(DENSE, 8, 8), (DENSE, 12, 24), (DENSE, 64, 64), (EXPERTS, 6, 12), (EXPERTS, 16, 16)]

HEAD = """
checkpoint: {enable_save: false}
lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.0e-4, warmup_steps: 0}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config: {data_path: [none], split: "1,0,0", seq_length: %d, create_attention_mask: false}
training: {steps: 1, local_batch_size: 1, global_batch_size: %d}
model:
  compute_dtype: float32
  use_attn_mask_compression: true
"""


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def grids(m, world):
    """tp, cp, method, degree of ulysses."""
    heads, kv = m["num_attention_heads"], m["num_key_value_heads"]
    dense_width = m["intermediate_size"] if "num_experts" not in m else 0
    for tp in divisors(world):
        if heads % tp or (kv % tp and tp % kv) or (dense_width and dense_width % tp):
            continue
        for cp in divisors(world // tp):
            if m["seq_length"] % cp:
                continue
            if cp == 1:
                yield tp, 1, "colossal", 1
                continue
            yield tp, cp, "colossal", 1
            own, own_kv = heads // tp, max(1, kv // tp)
            for degree in divisors(cp):
                fits = own % degree == 0 and (own_kv % degree == 0 or degree % own_kv == 0)
                if degree > 1 and fits:
                    yield tp, cp, "ulysses" if degree == cp else "hybrid", 1 if degree == cp else degree


def pipelines(m, world):
    layers = m["num_hidden_layers"]
    for pp in divisors(world):
        if pp == 1:
            yield 1, 1
            continue
        for chunks in range(1, 9):
            if pp * chunks > layers:
                break
            if chunks in (1, 2, 4, 8) or layers % (pp * chunks) == 0:
                yield pp, chunks


def experts(m, world, node):
    count = m.get("num_experts", 0)
    for ep in divisors(world):
        if ep > 1 and (count == 0 or count % ep):
            continue
        yield ep, False
        if ep > 1 and ep % node == 0:
            yield ep, True


def legal(m, world, batch, node):
    for (tp, cp, method, degree), (pp, chunks), (ep, by_node) in itertools.product(
            list(grids(m, world)), list(pipelines(m, world)), list(experts(m, world, node))):
        if world % (tp * cp * pp):
            continue
        dp = world // (tp * cp * pp)
        for shard in divisors(dp):
            if (shard * cp * tp) % ep:
                continue
            for local in divisors(batch):
                if batch % (dp * local) or (local * m["seq_length"] // cp) % tp:
                    continue
                for recompute in ("none", "half", "all"):
                    for reshard in ("default", "always", "never"):
                        if reshard == "never" and pp > 1 or reshard != "default" and shard * cp == 1:
                            continue
                        for light in (False, True)[:2 if pp > 1 else 1]:
                            yield (pp, chunks, tp, cp, method, degree, ep, by_node, shard, local,
                                   recompute, reshard, light)


def searched(program, machine, m, world, batch):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.yaml")
        with open(path, "w") as file:
            file.write(HEAD % (m["seq_length"], batch))
            file.writelines(f"  {key}: {value}\n" for key, value in m.items())
        out = subprocess.run([program, "plan", "--config", path, "--ranks", str(world), "--search", "--json",
                              "--machine", machine], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"tessera plan --search failed:\n{out.stderr}")
    keys = ("pp", "chunks", "tp", "cp", "method", "ulysses", "ep", "by_node", "dp_shard", "local_batch",
            "recompute", "reshard", "light_ends")
    return [tuple(layout[key] for key in keys) for layout in json.loads(out.stdout)["legal"]]


def main():
    program, machine = sys.argv[1:]
    for model, world, batch in CASES:
        own, found = list(legal(model, world, batch, 8)), searched(program, machine, model, world, batch)
        missed, wrong = set(own) - set(found), set(found) - set(own)
        print(f"{model['model_type']} on {world}: {len(own)} legal, missed {len(missed)}, "
              f"wrongly legal {len(wrong)}, twice {len(found) - len(set(found))}")
        if missed or wrong or len(found) != len(set(found)):
            sys.exit(f"missed {sorted(missed)[:5]}\nwrongly legal {sorted(wrong)[:5]}")


if __name__ == "__main__":
    main()
