#!/usr/bin/env python3
"""Speed of Tessera on the cases of cases.json, beside a peer on the same shapes.

    bench.py run --programs DIR [--peer DIR] [--cases A,B] [--rounds N] [--ranks threads,processes] [--set KEY=VALUE] [--results FILE]
    bench.py table FILE...

A round measures every side once, in turn. The peer is any folder with shapes.json (models, cases) and run_peer.sh CASE, which
prints one JSON line; it runs with TUNED=1. Every run is one JSON line in the results; the table holds medians over the rounds.
Needs no more than Python's standard library, and what the peer needs ($PYTHON).
"""

import argparse
import json
import math
import os
import random
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 2**20
AXES = ("pp", "dp_replicate", "dp_shard", "cp", "tp")


# ---- shapes


def read_shapes(peer):
    """Cases by name, complete, and the peer's models: what the peer has too is taken from it, so that both run the same."""
    cases, models = {}, {}
    for folder, file in ((HERE, "cases.json"), (peer, "shapes.json")):
        if not folder:
            continue
        shapes = json.loads((folder / file).read_text())
        models = shapes.get("models", {})
        for name, case in shapes["cases"].items():
            case = {"library": "torch", **shapes["defaults"], **case, "name": name, "peer": folder is peer}
            case["world"] = math.prod(case[axis] for axis in AXES)
            if case["library"] == "torch" and (HERE / f"{case['model']}.yaml").exists():
                cases[name] = case
    return cases, models


def settings(case):
    """The case as values of the YAML file."""
    values = {
        "training.local_batch_size": case["local_batch"],
        "training.global_batch_size": case["global_batch"],
        "training.steps": case["steps"] + 1,  # so that the process is still there to be looked at; not used
        "parallelism.tensor_parallel": case["tp"],
        "parallelism.context_parallel": case["cp"],
        "parallelism.expert_parallel": case["ep"],
        "parallelism.pipeline_parallel": case["pp"],
    }
    if "seq" in case:
        for key in ("model.seq_length", "model.max_position_embeddings", "train_dataset.dataloader.config.seq_length"):
            values[key] = case["seq"]
    if case["dp_replicate"] > 1:
        values["parallelism.data_parallel_shard"] = case["dp_shard"]
    if not case["reshard_after_forward"]:
        values["parallelism.reshard_after_forward_policy"] = "never"
    if case["cp"] > 1:
        values["parallelism.context_parallel_method"] = "ulysses" if case["cp_method"] == "ulysses" else "colossal"
    if case["pp"] > 1:
        values["parallelism.pipeline_parallel_layers_per_stage"] = "auto"
        values["parallelism.pipeline_parallel_interleave_num"] = case["virtual"]
    return [f"{key}={value}" for key, value in values.items()]


def flops_of_step(model, case):
    """6 x weights that multiply a token x tokens, and the causal half of attention, forward and backward."""
    q, kv = model["heads"] * model["head_dim"], model["kv_heads"] * model["head_dim"]
    mlp = 3 * model["hidden"] * model["ffn"] * model.get("top_k", 1) + model["hidden"] * model.get("experts", 0)
    weights = model["layers"] * (model["hidden"] * 2 * (q + kv) + mlp) + model["hidden"] * model["vocab"]
    return (6 * weights + 6 * model["layers"] * model["seq"] * q) * case["global_batch"] * model["seq"]


def parameters_of(model):
    q, kv = model["heads"] * model["head_dim"], model["kv_heads"] * model["head_dim"]
    mlp = 3 * model["hidden"] * model["ffn"] * model.get("experts", 1) + model["hidden"] * model.get("experts", 0)
    layer = model["hidden"] * (2 * q + 2 * kv) + mlp + 2 * model["hidden"]
    return model["layers"] * layer + model["hidden"] + 2 * model["hidden"] * model["vocab"]


def plan_model(programs, name):
    """The model of <name>.yaml in the words of shapes.json, and its parameters as the plan counts them."""
    keys = {"hidden": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads",
            "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "ffn": "intermediate_size", "vocab": "vocab_size",
            "seq": "seq_length", "experts": "num_experts", "top_k": "num_experts_per_tok"}
    lines = (HERE / f"{name}.yaml").read_text().splitlines()
    values = dict(line.strip().split(": ", 1) for line in lines if ": " in line)
    model = {word: int(values[key]) for word, key in keys.items() if key in values}
    plan = subprocess.run([programs / "tessera", "plan", "--config", HERE / f"{name}.yaml", "--ranks", "1", "--json"],
                          capture_output=True, text=True, check=True)
    return model, json.loads(plan.stdout)["model"]["parameters"]


def check_model(programs, name, theirs):
    """Same sizes as the peer's, same number of parameters; Qwen3's norms of q and k are the one known surplus."""
    model, parameters = plan_model(programs, name)
    if theirs and model != theirs:
        sys.exit(f"bench: benchmarks/{name}.yaml is {model}, the peer's is {theirs}")
    surplus = 2 * model["head_dim"] * model["layers"] if "experts" in model else 0
    if parameters != parameters_of(model) + surplus:
        sys.exit(f"bench: {name} has {parameters} parameters, expected {parameters_of(model)} + {surplus}")
    return model


def write_tokens(prefix, count=2**18, seed=1234):
    """A token file of one document; each token is the one before plus 17 to 20, modulo 256."""
    generator, token, tokens = random.Random(seed), 0, []
    for _ in range(count):
        token = (token + 17 + generator.randrange(4)) % 256
        tokens.append(token)
    Path(f"{prefix}.bin").write_bytes(struct.pack(f"<{count}H", *tokens))
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2)  # version, uint16, sequences, documents + 1
    Path(f"{prefix}.idx").write_bytes(head + struct.pack("<iqqq", count, 0, 0, 1))


# ---- what the kernel says


def family(pid):
    """pid and all its descendants."""
    children = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, rest = [], [pid]
    while rest:
        found.append(rest.pop())
        rest += children.get(found[-1], [])
    return found


def cpu_seconds(pids):
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_rss(pids):
    """Bytes of each process. Pages that processes share count for each of them."""
    peaks = []
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                peaks.append(int(line.split()[1]) * 1024)
    return peaks


def machine_busy():
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


# ---- the sides


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def gemm_peak(programs):
    """GFLOP/s of float32 products by number of threads, right now."""
    out = subprocess.run([programs / "gemm_peak"], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def run_ours(case, model, args, ranks_are, folder):
    overrides = settings(case) + [f"output_dir={folder}/output",
                                  f"train_dataset.dataloader.config.data_path=[{folder}/tokens]"] + args.set
    train = ["--config", str(HERE / f"{case['model']}.yaml")]
    for item in overrides:
        train += ["--set", item]
    if ranks_are == "threads" or case["world"] == 1:
        command = [args.programs / "tessera", "train", "--ranks", str(case["world"]), *train]
    else:
        command = [args.programs / "tessera", "launch", f"--worker_num={case['world']}",
                   f"--local_worker_num={case['world']}", f"--master_port={free_port()}", "--join=True",
                   f"--log_dir={folder}/log", args.programs / "run_mindformer.py", *train]
    metrics, log = Path(folder, "output", "metrics.jsonl"), Path(folder, "log.txt")
    metrics.unlink(missing_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": str(case["threads"]), "MKL_NUM_THREADS": str(case["threads"])}
    begin = time.time()
    with log.open("w") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env=environment, start_new_session=True)

    def wait_for(step):
        while not metrics.exists() or metrics.read_bytes().count(b"\n") < step:
            if process.poll() is not None:
                sys.exit(f"bench: {case['name']} ended early\n{log.read_text()}")
            time.sleep(0.005)
        return time.time()

    try:
        first = wait_for(1) - begin
        start = wait_for(case["warmup"])
        pids = family(process.pid)
        cpu, busy = cpu_seconds(pids), machine_busy()
        end = wait_for(case["steps"])
        cpu, busy, rss = cpu_seconds(pids) - cpu, machine_busy() - busy, peak_rss(pids)
        if not case.get("on_request") and process.wait() != 0:  # on request: minutes a step, so not another one
            sys.exit(f"bench: {case['name']} failed\n{log.read_text()}")
    finally:
        while process.poll() is None:  # the second signal does not wait for the step
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.2)
    lines = [json.loads(line) for line in metrics.read_text().splitlines()][: case["steps"]]
    workers = sorted(rss)[-(case["world"] if ranks_are == "processes" else 1):]
    seconds = [line["seconds"] for line in lines]
    return {
        "side": "tessera", "ranks_are": ranks_are if case["world"] > 1 else "threads", "step_seconds": seconds,
        "tokens_per_second": case["global_batch"] * model["seq"] / statistics.median(seconds[case["warmup"]:]),
        "cpu_seconds_per_step": cpu / (case["steps"] - case["warmup"]),
        "others_cpu_share": max(0.0, (busy - cpu) / ((end - start) * os.cpu_count())),
        "peak_rss_mib": {"max": max(workers) / MIB, "sum": sum(workers) / MIB},
        "peak_tensors_mib": max(line.get("peak_memory_bytes", 0) for line in lines) / MIB,
        "first_step_seconds": first, "loss_first": lines[0]["loss"], "gemm_gflops": gemm_peak(args.programs),
    }


def run_theirs(case, args):
    out = subprocess.run(["bash", str(args.peer / "run_peer.sh"), case["name"]], capture_output=True, text=True,
                         env={**os.environ, "TUNED": "1"})
    if out.returncode != 0:
        sys.exit(f"bench: the peer failed on {case['name']}\n{out.stderr}")
    line = json.loads(out.stdout.strip().splitlines()[-1])
    return {
        "side": "peer", "ranks_are": "processes", "first_step_seconds": line["startup_seconds"]["to_first_step_done"],
        **{key: line[key] for key in ("step_seconds", "tokens_per_second", "cpu_seconds_per_step", "others_cpu_share",
                                      "peak_rss_mib", "loss_first", "gemm_gflops")},
    }


def run(args):
    cases, theirs = read_shapes(args.peer)
    names = args.cases.split(",") if args.cases else [n for n, c in cases.items() if not c.get("on_request")]
    if unknown := [name for name in names if name not in cases]:
        sys.exit(f"bench: no case {unknown[0]}; known: {' '.join(cases)}")
    models = {m: check_model(args.programs, m, theirs.get(m)) for m in sorted({cases[n]["model"] for n in names})}
    lines = []
    with tempfile.TemporaryDirectory() as folder, args.results.open("a") as results:
        write_tokens(f"{folder}/tokens")
        for name in names:
            case = cases[name]
            model = {**models[case["model"]], **({"seq": case["seq"]} if "seq" in case else {})}
            sides = [lambda r=r: run_ours(case, model, args, r, folder) for r in args.ranks.split(",")]
            if case["world"] == 1:
                del sides[1:]
            if case["peer"]:
                sides.append(lambda: run_theirs(case, args))
            for turn in range(args.rounds):
                for side in sides:
                    line = {"case": name, "ranks": case["world"], "threads": case["threads"], "dtype": "float32",
                            "tokens_per_step": case["global_batch"] * model["seq"], "flops_per_step": flops_of_step(model, case),
                            "set": args.set, "turn": turn, **side()}
                    lines.append(line)
                    results.write(json.dumps(line) + "\n")
                    results.flush()
    print(table(lines))


# ---- the table


def table(lines):
    """Markdown; medians over the turns. GEMM peak: the median of what was measured between the runs, for as many
    threads as a case can keep busy."""
    cores = os.cpu_count()
    gemm = {}
    for line in lines:
        for threads, gflops in line["gemm_gflops"].items():
            gemm.setdefault(int(threads), []).append(gflops)
    gemm = {threads: statistics.median(values) for threads, values in gemm.items()}

    def median(rows, value):  # None where no row has it: a run of one step has no CPU seconds of later ones
        values = [v for v in map(value, rows) if v is not None]
        return statistics.median(values) if values else None

    def cell(ours, peer, value, form="{:.0f}"):
        shown = [form.format(x) if x is not None else "" for x in (median(ours, value), median(peer, value))]
        return f"{shown[0]} / {shown[1]}" if peer else shown[0]

    out = ["GEMM, float32: " + ", ".join(f"{v:.0f} GFLOP/s with {t} thread{'s' * (t > 1)}" for t, v in sorted(gemm.items())),
           "", "Ours / peer's.", "",
           "| case | ranks are | turns | tokens/s | ratio | tokens per CPU s | ratio | of GEMM peak | tensors of a rank, peak MiB | "
           "largest process, peak RSS MiB | sum | first step done, s | others' CPU |", "|---" * 13 + "|"]
    keys = list(dict.fromkeys((line["case"], line["ranks_are"]) for line in lines if line["side"] == "tessera"))
    rate = lambda line: line["tokens_per_second"]
    work = lambda line: line["tokens_per_step"] / line["cpu_seconds_per_step"] if line["cpu_seconds_per_step"] else None
    for name, ranks_are in keys:
        ours = [l for l in lines if (l["case"], l["side"], l["ranks_are"]) == (name, "tessera", ranks_are)]
        peer = [l for l in lines if (l["case"], l["side"]) == (name, "peer")]
        ratio = lambda value: f"{median(ours, value) / median(peer, value):.2f}" if median(peer, value) and median(ours, value) else ""
        busy = min(cores, ours[0]["ranks"] * ours[0]["threads"])
        peak = gemm.get(busy) or max(gemm.values())
        share = lambda line: 100 * line["flops_per_step"] / line["tokens_per_step"] * rate(line) / 1e9 / peak
        out.append("| " + " | ".join([
            name, f"{ours[0]['ranks']} {ranks_are}", str(len(ours)), cell(ours, peer, rate), ratio(rate),
            cell(ours, peer, work), ratio(work), cell(ours, peer, share, "{:.0f} %"),
            cell(ours, [], lambda l: l.get("peak_tensors_mib", 0)),
            cell(ours, peer, lambda l: l["peak_rss_mib"]["max"]), cell(ours, peer, lambda l: l["peak_rss_mib"]["sum"]),
            cell(ours, peer, lambda l: l["first_step_seconds"], "{:.1f}"),
            f"{100 * max(l['others_cpu_share'] for l in ours + peer):.0f} %"]) + " |")
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("run")
    measure.add_argument("--programs", type=Path, required=True, help="folder of tessera, run_mindformer.py, gemm_peak")
    measure.add_argument("--peer", type=Path, help="folder of shapes.json and run_peer.sh; without: only ours")
    measure.add_argument("--cases", default="", help="names, with commas; all when left out")
    measure.add_argument("--rounds", type=int, default=3)
    measure.add_argument("--ranks", default="threads", help="threads, processes, or both with a comma")
    measure.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of the YAML file, for every case")
    measure.add_argument("--results", type=Path, default=Path("bench.jsonl"), help="lines are appended")
    show = commands.add_parser("table")
    show.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    if args.command == "run":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
        args.programs, args.peer = args.programs.resolve(), args.peer and args.peer.resolve()
        run(args)
    else:
        print(table([json.loads(line) for file in args.files for line in file.read_text().splitlines()]))


if __name__ == "__main__":
    main()
