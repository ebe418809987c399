#!/usr/bin/env python3
"""Bytes a second of `tessera preprocess` and of Hugging Face's `tokenizers`, in turns on the same documents.

    python benchmarks/tokenizers_speed.py --tokenizer FOLDER --text FILE [--tessera build/release/bin/tessera]

Takes the first 50 MB of FILE as documents of about 2,000 bytes. The package encodes them once before (its cache is warm) and then one by
one on one thread; tessera reads JSON lines and writes token files, on one thread and on two. The best of three turns counts."""

import argparse
import json
import os
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
    best = {}

    def note(name, seconds):
        best[name] = min(best.get(name, 1e9), seconds)
        print(f"{name:24} {size / seconds:8.1f} MB/s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "texts.jsonl"
        lines.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        expected = sum(len(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts)
        for _ in range(3):
            started = time.perf_counter()
            for text in texts:
                tokenizer.encode(text, add_special_tokens=False)
            note("tokenizers", time.perf_counter() - started)
            for workers in (1, 2):
                started = time.perf_counter()
                out = subprocess.run(
                    [options.tessera, "preprocess", "--input", lines, "--tokenizer", options.tokenizer, "--output", f"{folder}/out", "--workers", str(workers), "--format", "jsonl"],
                    check=True, stdout=subprocess.PIPE, text=True,
                ).stdout  # fmt: skip
                note(f"tessera, {workers} thread(s)", time.perf_counter() - started)
                assert f" {expected} tokens" in out, (expected, out)
    one, two = best["tessera, 1 thread(s)"], best["tessera, 2 thread(s)"]
    print(f"one thread: {best['tokenizers'] / one:.2f} times the package; two threads: {one / two:.2f} times one")


if __name__ == "__main__":
    main()
