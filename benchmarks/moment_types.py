#!/usr/bin/env python3
"""Loss of runs whose moments are kept in fewer bits, beside float32's: `make train`'s model, 1000 steps.

    python benchmarks/moment_types.py --tessera build/release/bin/tessera --seeds 42,43,44
    python benchmarks/moment_types.py --tessera build/release/bin/tessera --equal --types bfloat16,int8

Two float32 runs that differ in the last bit somewhere end 0.5 % or more apart: the text is learned by heart, and the loss falls fast.
So a type is judged by the mean over seeds; the spread of the seeds' differences stands beside it. The exit code is 1 where the mean over
seeds of the last --last steps is farther than --within (a share) from float32's.

--equal compares instead, for each type (float32 first), a run on 8 ranks with one on one rank, which add the same sequences in the
same order: how many steps have the same loss to the last bit, and how far the last steps' losses are apart.

Needs data/train_small.bin (`make train` makes it). Runs one after the other; results stay in --output and are not made again."""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(options, kind, seed, ranks):
    """The metrics of every step."""
    name = f"{kind}_seed{seed}_ranks{ranks}_steps{options.steps}"
    folder = Path(options.output).resolve() / name
    metrics = folder / "metrics.jsonl"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        metrics.unlink(missing_ok=True)
        command = [str(Path(options.tessera).resolve()), "train", "--config", options.config, "--ranks", str(ranks)]
        for setting in (
            f"training.steps={options.steps}",
            f"training.seed={seed}",
            f"optimizer.moment_dtype={kind}",
            f"output_dir={folder}",
        ):
            command += ["--set", setting]
        with open(folder / "log.txt", "w") as log:
            if subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT).returncode != 0:
                sys.exit(f"{' '.join(command)} failed; see {folder}/log.txt")
        (folder / "complete").touch()
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def last_loss(options, steps):
    return statistics.fmean(step["loss"] for step in steps[-options.last :])


def compare_types(options):
    seeds = [int(seed) for seed in options.seeds.split(",")]
    wide = [last_loss(options, run(options, "float32", seed, options.ranks)) for seed in seeds]
    print(f"{'moments':<10} {'mean loss':>10} {'over float32':>13} {'by seed':>9}")
    print(f"{'float32':<10} {statistics.fmean(wide):>10.4f} {'':>13} ", *(f"{loss:.4f}" for loss in wide))
    good = True
    for kind in options.types.split(","):
        losses = [last_loss(options, run(options, kind, seed, options.ranks)) for seed in seeds]
        mean = statistics.fmean(losses) / statistics.fmean(wide) - 1
        good = good and abs(mean) <= options.within
        each = (f"{100 * (loss / base - 1):+.2f} %" for loss, base in zip(losses, wide))
        print(f"{kind:<10} {statistics.fmean(losses):>10.4f} {100 * mean:>+11.2f} % ", *each)
    return good


def compare_ranks(options):
    seed = int(options.seeds.split(",")[0])
    for kind in ["float32", *options.types.split(",")]:
        one, eight = (run(options, kind, seed, ranks) for ranks in (1, 8))
        same = 0
        while same < len(one) and one[same]["loss"] == eight[same]["loss"]:
            same += 1
        apart = last_loss(options, eight) / last_loss(options, one) - 1
        print(f"{kind:<10} {same} of {len(one)} steps the same to the last bit; mean loss of the last {options.last}: {100 * apart:+.3f} %")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", required=True)
    parser.add_argument("--config", default="configs/train_small.yaml")
    parser.add_argument("--types", default="bfloat16,int8")
    parser.add_argument("--seeds", default="42,43,44")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--last", type=int, default=100)
    parser.add_argument("--within", type=float, default=0.005)
    parser.add_argument("--equal", action="store_true")
    parser.add_argument("--output", default="output/moment_types")
    options = parser.parse_args()
    sys.exit(0 if (compare_ranks if options.equal else compare_types)(options) else 1)


if __name__ == "__main__":
    main()
