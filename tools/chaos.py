#!/usr/bin/env python3
"""Whether a run that is hit again and again has the losses of one that is not.

Trains a mixture of experts with dropout (float64, asynchronous saves) on processes, undisturbed and then with random faults at
random moments: a worker killed, stopped or aborted, the newest checkpoint damaged or cut off, the launcher killed and started
again. The losses must be equal bit for bit, and so must the files of the last checkpoint. Then three nodes of one worker each lose
one after the other and get them back (--nnodes=1:3): losses must be equal to 1e-10.

Usage: chaos.py PROGRAMS [--faults 30] [--ranks 6] [--steps 400] [--seed 1]
"""

import argparse
import filecmp
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASE = Path(__file__).resolve().parent.parent / "tests" / "cases" / "mixtral_64" / "config.yaml"
NODES = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lines_of(folder):
    """The objects of metrics.jsonl; a last line that is half written is left out."""
    try:
        text = (folder / "metrics.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]


def losses(folder):
    return {line["step"]: (line["loss"], line["grad_norm"]) for line in lines_of(folder) if "loss" in line}


class Run:
    """A launcher: of all workers, or with `node` of the one worker of that node of three."""

    def __init__(self, args, output, port, node=None):
        self.args, self.output, self.port, self.node = args, output, port, node
        self.process = None

    def start(self):
        one_node = self.node is None
        ranks = self.args.ranks if one_node else NODES
        nodes = [f"--local_worker_num={ranks}"] if one_node else [
            "--local_worker_num=1", f"--nnodes=1:{NODES}", f"--node_rank={self.node}", "--heartbeat_timeout=3"]
        command = [f"{self.args.programs}/msrun", f"--worker_num={ranks}", *nodes,
                   f"--master_port={self.port}", "--join=True", "--max_restarts=1000", f"--log_dir={self.output}/logs",
                   "run_mindformer.py", "--config", str(CASE)]
        replicas = 3 if ranks % 3 == 0 else 1
        for value in [f"parallelism.data_parallel_shard={ranks // replicas}",
                      "training.local_batch_size=1", f"training.global_batch_size={2 * ranks}",
                      f"training.steps={self.args.steps}", "training.timeout_seconds=20",
                      "model.hidden_dropout=0.1", "checkpoint.enable_save=true", "checkpoint.async_save=true",
                      "checkpoint.save_interleaved_steps=7", "checkpoint.save_max=3", "checkpoint.resume=auto",
                      f"output_dir={self.output}"]:
            command += ["--set", value]
        with open(f"{self.output}.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.output.parent,
                                            env={**os.environ, "OMP_NUM_THREADS": "1"})

    def workers(self):
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        except FileNotFoundError:
            return []
        return [int(child) for child in children]


def damage_newest(run, rng):
    folders = sorted((run.output / "checkpoint").glob("iteration_????????"))
    if not folders:
        return
    files = sorted(folders[-1].glob("checkpoint-*.safetensors"))
    if not files:
        return
    try:
        with open(rng.choice(files), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if rng.random() < 0.3:
                file.truncate(size // 2)
            else:
                file.seek(rng.randrange(size))
                file.write(b"\x55\xaa\x55")
    except OSError:
        pass  # it was removed meanwhile


def hit(run, rng):
    """One fault. Returns its name, or none where there was nobody to hit."""
    workers = run.workers()
    if not workers:
        return None
    kind = rng.choices(["kill", "stop", "abort", "damage", "launcher"], [8, 1, 3, 4, 2])[0]
    try:
        if kind == "damage":
            damage_newest(run, rng)
            kind = "damage and kill"
        if kind == "launcher":
            run.process.kill()
            run.process.wait()
            run.start()
        else:
            os.kill(rng.choice(workers), {"stop": signal.SIGSTOP, "abort": signal.SIGABRT}.get(kind, signal.SIGKILL))
    except ProcessLookupError:
        return None
    return kind


def disturbed(args, folder):
    rng = random.Random(args.seed)
    run = Run(args, folder / "out", free_port())
    run.output.mkdir()
    run.start()
    faults, in_vain, reached = [], 0, 0
    while run.process.poll() is None and len(faults) < args.faults:
        time.sleep(rng.expovariate(1 / 2.0))
        steps = max(losses(run.output), default=0)
        # Three restarts without a step end a run: so many faults in a row are not meant here.
        in_vain = 0 if steps != reached else in_vain
        if in_vain == 2:
            continue
        reached = steps
        kind = hit(run, rng)
        if kind:
            in_vain += 1
            faults.append(kind)
            print(f"fault {len(faults)} at step {steps}: {kind}", flush=True)
    return run.process.wait(), faults


def losing_nodes(args, folder):
    """Nodes 2 and 1 are killed; both come back and are taken in when the worker of node 0 is killed: 3, 2, 1, 3 workers."""
    output, port = folder / "nodes", free_port()
    output.mkdir()
    nodes = [Run(args, output, port, node) for node in range(NODES)]
    for node in nodes:
        node.start()
    for turn in range(1, 5):
        while nodes[0].process.poll() is None and max(losses(output), default=0) < args.steps * turn // 5:
            time.sleep(0.05)
        if turn == 3:
            nodes[1].start()
            nodes[2].start()
        elif turn == 4:
            for worker in nodes[0].workers():
                os.kill(worker, signal.SIGKILL)
        else:
            nodes[3 - turn].process.kill()
            nodes[3 - turn].process.wait()
    code = nodes[0].process.wait()
    for node in nodes[1:]:
        node.process.wait()
    log = Path(f"{output}.log").read_text()
    if code != 0:
        sys.exit(f"the run that lost nodes ended with {code}\n{log[-8000:]}")
    if not (output / "logs" / "worker_2.start_4.log").exists():
        sys.exit(f"nodes that came back were not taken in\n{log[-8000:]}")
    calm = folder / "three"
    calm.mkdir()
    command = [f"{args.programs}/tessera", "train", "--ranks", str(NODES), "--config", str(CASE)]
    for value in ["parallelism.data_parallel_shard=1", "training.local_batch_size=1", f"training.global_batch_size={2 * NODES}",
                  f"training.steps={args.steps}", "model.hidden_dropout=0.1", "elastic.layouts=[{}]",
                  "checkpoint.enable_save=false", f"output_dir={calm}"]:
        command += ["--set", value]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    expected, got = losses(calm), losses(output)
    wrong = [step for step, values in expected.items()
             if any(abs(a - b) > 1e-10 * abs(b) for a, b in zip(got.get(step, (0, 0)), values))]
    if wrong or len(got) != len(expected):
        sys.exit(f"with nodes lost {len(wrong)} of {len(expected)} steps differ, the first is {wrong[:1]}\n{log[-8000:]}")
    print(f"nodes lost and found again, {args.steps} steps: losses and norms are those of the undisturbed run to 1e-10")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=lambda path: Path(path).resolve())
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=6)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tessera_chaos_") as name:
        folder = Path(name)
        calm = Run(args, folder / "calm", free_port())
        calm.output.mkdir()
        calm.start()
        if calm.process.wait() != 0:
            sys.exit(f"the undisturbed run failed\n{Path(f'{calm.output}.log').read_text()[-5000:]}")
        code, faults = disturbed(args, folder)
        log = (folder / "out.log").read_text()
        if code != 0:
            sys.exit(f"the disturbed run ended with {code} after {len(faults)} faults\n{log[-8000:]}")
        expected, got = losses(folder / "calm"), losses(folder / "out")
        wrong = [step for step in expected if got.get(step) != expected[step]]
        if wrong or len(got) != len(expected):
            sys.exit(f"{len(wrong)} of {len(expected)} steps differ, the first is {wrong[:1]}\n{log[-8000:]}")
        last = f"checkpoint/iteration_{args.steps:08d}"
        names = [file.name for file in (folder / "calm" / last).glob("*.safetensors")]
        _, different, missing = filecmp.cmpfiles(folder / "calm" / last, folder / "out" / last, names, shallow=False)
        if different or missing or not names:
            sys.exit(f"files of the last checkpoint differ: {different + missing}")
        costs = [line for line in lines_of(folder / "out") if "restart" in line]
        seconds = sorted(line["seconds"] for line in costs)
        losing_nodes(args, folder)
        print(f"{len(faults)} faults, {args.steps} steps on {args.ranks} processes: losses, norms and weights are those of the "
              f"undisturbed run")
        if costs:
            print(f"{len(costs)} restarts told: median {seconds[len(seconds) // 2]:.1f} s until a step was finished, "
                  f"{sum(line['steps_lost'] for line in costs)} steps done again")


if __name__ == "__main__":
    main()
