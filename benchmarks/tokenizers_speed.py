#!/usr/bin/env python3
"""Bytes a second of `tessera preprocess` and of Hugging Face's `tokenizers`, in turns on the same documents.

    python benchmarks/tokenizers_speed.py --tokenizer FOLDER --text FILE [--tessera build/release/bin/tessera]

Takes the first 50 MB of FILE as documents of about 2,000 bytes. The package encodes them once before (its cache is warm) and then one by
one on one thread; tessera reads JSON lines and writes token files, on one thread and on two. The best of three turns counts, in seconds and in
seconds of the processor, which other programs on the machine disturb less."""

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402


def documents(path, limit):
    text = path.read_bytes()[:limit].decode(errors="ignore")
    made, lines, size = [], [], 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= 2000:
            made.append("".join(lines))
            lines, size = [], 0
    return made + (["".join(lines)] if lines else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tessera", default="build/release/bin/tessera")
    parser.add_argument("--megabytes", type=int, default=50)
    options = parser.parse_args()
    texts = documents(options.text, options.megabytes * 1_000_000)
    size = sum(len(t.encode()) for t in texts) / 1e6
    tokenizer = Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    best, best_cpu = {}, {}

    def cpu():
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def measured(name, work):
        started, cpu_started = time.perf_counter(), cpu()
        result = work()
        seconds, cpu_seconds = time.perf_counter() - started, cpu() - cpu_started
        best[name], best_cpu[name] = min(best.get(name, 1e9), seconds), min(best_cpu.get(name, 1e9), cpu_seconds)
        print(f"{name:24} {size / seconds:8.1f} MB/s {size / cpu_seconds:8.1f} MB a second of the processor", flush=True)
        return result

    def encode_all():
        for text in texts:
            tokenizer.encode(text, add_special_tokens=False)

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "texts.jsonl"
        lines.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        expected = sum(len(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts)
        for _ in range(3):
            measured("tokenizers", encode_all)
            for workers in (1, 2):
                command = [options.tessera, "preprocess", "--input", lines, "--tokenizer", options.tokenizer, "--output", f"{folder}/out", "--workers", str(workers), "--format", "jsonl"]
                out = measured(f"tessera, {workers} thread(s)", lambda: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)  # noqa: B023
                assert f" {expected} tokens" in out, (expected, out)
    one, two = best["tessera, 1 thread(s)"], best["tessera, 2 thread(s)"]
    print(f"one thread, by the processor's seconds: {best_cpu['tokenizers'] / best_cpu['tessera, 1 thread(s)']:.2f} times the package")
    print(f"one thread: {best['tokenizers'] / one:.2f} times the package; two threads: {one / two:.2f} times one")


if __name__ == "__main__":
    main()
