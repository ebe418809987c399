#!/usr/bin/env python3
"""Holds predicted seconds to measured ones on this machine.

    plan_check.py --programs DIR [--rounds N] [--machine FILE] [--results FILE]

Three models, fifteen layouts each, ranks as threads and as processes; one model (dense_m) is not looked at while the planner
is tuned. In each round every run is measured once, in a shuffled order; before each a product is probed, and the step is
scaled by it. A run during which others took more than a tenth of the machine is repeated, three times at most. Prints the
median error of a step, Kendall's rank correlation over pairs that differ by more than twice the spread, how far the
fastest predicted layout is from the fastest measured one, the spread of repeats, and every miss.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import free_port, gemm_peak, machine_busy, write_tokens

HERE = Path(__file__).resolve().parent
MODELS = ("dense_s", "moe_s", "dense_m")
STEPS, WARM = 8, 2
# ranks, then values of parallelism (micro-batches follow from the batch of eight).
LAYOUTS = [
    (1, {}), (1, {"local": 2}), (2, {}), (2, {"tensor_parallel": 2}), (2, {"pipeline_parallel": 2, "local": 1}),
    (2, {"reshard_after_forward_policy": "never"}), (2, {"data_parallel_shard": 1}), (4, {}), (4, {"tensor_parallel": 2}),
    (4, {"tensor_parallel": 4}), (4, {"context_parallel": 2}), (4, {"context_parallel": 4, "context_parallel_method": "ulysses"}),
    (4, {"pipeline_parallel": 4, "local": 1}), (4, {"tensor_parallel": 2, "pipeline_parallel": 2, "local": 2}),
    (4, {"data_parallel_shard": 2}),
]


def overrides(ranks, layout, tokens, output):
    layout = dict(layout)
    inner = layout.get("tensor_parallel", 1) * layout.get("context_parallel", 1) * layout.get("pipeline_parallel", 1)
    dp = ranks // inner
    local = layout.pop("local", 8 // dp)
    values = {f"parallelism.{key}": value for key, value in layout.items()}
    if layout.get("pipeline_parallel", 1) > 1:
        values["parallelism.pipeline_parallel_layers_per_stage"] = "auto"
    values.update({"training.local_batch_size": local, "training.global_batch_size": 8, "training.steps": STEPS,
                   "model.use_attn_mask_compression": "true", "output_dir": output,
                   "train_dataset.dataloader.config.data_path": f"[{tokens}]"})
    return [item for key, value in values.items() for item in ("--set", f"{key}={value}")]


def measure(programs, model, ranks, kind, sets, output):
    """Median seconds of a step, and the share of the machine that others took."""
    config = str(HERE / f"{model}.yaml")
    if kind == "threads":
        command = [str(programs / "tessera"), "train", "--config", config, "--ranks", str(ranks)] + sets
    else:
        command = [str(programs / "tessera"), "launch", f"--worker_num={ranks}", f"--local_worker_num={ranks}", "--join=True",
                   f"--log_dir={output}", f"--master_port={free_port()}",
                   str(programs / "run_mindformer.py"), "--config", config] + sets
    begin, before, usage = time.time(), machine_busy(), os.times()
    run = subprocess.run(command, capture_output=True, text=True)
    taken, used = machine_busy() - before, os.times()
    if run.returncode:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    own = used.children_user + used.children_system - usage.children_user - usage.children_system
    others = max(0.0, taken - own) / ((time.time() - begin) * os.cpu_count())
    lines = [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]
    return statistics.median(line["seconds"] for line in lines[WARM:]), others


def probe(programs):
    return max(gemm_peak(programs).values())


def kendall(rows, spread):
    agree = disagree = 0
    for (a, b) in itertools.combinations(rows, 2):
        if abs(a["measured"] / b["measured"] - 1) <= 2 * spread:
            continue
        same = (a["measured"] - b["measured"]) * (a["predicted"] - b["predicted"]) > 0
        agree, disagree = agree + same, disagree + (not same)
    return (agree - disagree) / max(1, agree + disagree)


def report(rows):
    spread = statistics.median(row["spread"] for row in rows)
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    limit = max(0.08, 1.5 * spread)
    print(f"{len(rows)} runs, spread of repeats {100 * spread:.1f} %, median error {100 * statistics.median(errors):.1f} % "
          f"(limit {100 * limit:.1f} %), Kendall {kendall(rows, spread):.3f} (limit 0.85)")
    for model, kind in itertools.product(MODELS, ("threads", "processes")):
        own = [row for row in rows if row["model"] == model and row["kind"] == kind]
        if not own:
            continue
        chosen = min(own, key=lambda row: row["predicted"])
        best = min(own, key=lambda row: row["measured"])
        median = statistics.median(abs(row["predicted"] / row["measured"] - 1) for row in own)
        print(f"{model:8} {kind:10} median error {100 * median:5.1f} %  chosen {chosen['layout']}: "
              f"{100 * (chosen['measured'] / best['measured'] - 1):.1f} % behind {best['layout']}")
    for row, error in sorted(zip(rows, errors), key=lambda pair: -pair[1]):
        if error > limit:
            print(f"  miss {row['model']} {row['kind']} {row['layout']}: predicted {1000 * row['predicted']:.1f} ms, "
                  f"measured {1000 * row['measured']:.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--kinds", default="threads,processes")
    parser.add_argument("--results")
    args = parser.parse_args()
    machine = ["--machine", args.machine] if args.machine else []
    folder = Path(tempfile.mkdtemp(prefix="plan_check_"))
    write_tokens(folder / "tokens")
    rows = []
    for model, kind, (ranks, layout) in itertools.product(args.models.split(","), args.kinds.split(","), LAYOUTS):
        sets = overrides(ranks, layout, folder / "tokens", folder / "out")
        plan = subprocess.run([str(args.programs / "tessera"), "plan", "--config", str(HERE / f"{model}.yaml"), "--ranks",
                               str(ranks), "--json"] + machine + sets + (["--processes"] if kind == "processes" else []),
                              capture_output=True, text=True)
        if plan.returncode:  # not every layout is legal for every model
            continue
        rows.append({"model": model, "kind": kind, "ranks": ranks, "layout": f"{ranks} {layout}", "sets": sets,
                     "predicted": json.loads(plan.stdout)["seconds"]["step"], "all": []})
    first = probe(args.programs)
    for _ in range(args.rounds):
        for row in random.sample(rows, len(rows)):
            for _ in range(3):
                scale = probe(args.programs) / first
                seconds, others = measure(args.programs, row["model"], row["ranks"], row["kind"], row["sets"], folder / "out")
                if others <= 0.1:
                    break
            row["all"].append(seconds * scale)
    for row in rows:
        row["measured"] = statistics.median(row["all"])
        row["spread"] = (max(row["all"]) - min(row["all"])) / row["measured"] / 2
        del row["sets"]
    if args.results:
        Path(args.results).write_text("".join(json.dumps(row) + "\n" for row in rows))
    report(rows)


if __name__ == "__main__":
    main()
