#!/usr/bin/env python3
"""Ids and texts of `tessera tokenize` against those of Hugging Face's `tokenizers` for tokenizers that are put together at random.

    python benchmarks/tokenizers_random.py --tessera build/release/bin/tessera --count 300 [--seed 1]

Needs `pip install tokenizers`. Each tokenizer has a random normalizer, pre-tokenizer, decoder, template, options of its model and added tokens
with random flags. What tessera refuses is counted apart (with one reason each); the exit code is 1 if an id or a text differs. `--keep FOLDER`
writes the tokenizers that differ, with their texts."""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["RUST_BACKTRACE"] = "0"
import tokenizers_compare as known  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

REGEXES = [
    known.GPT2, known.LLAMA3, known.O200K, known.BLOOM, known.POSSESSIVE, known.WORDS, *known.DEEPSEEK,
    r"\d", r"\d+", r"\s+", r"(?=\d)", r"(?=(\d{3})+(?!\d))", r"(?<=[a-z])(?=[A-Z])", r"", r"\b", r"[A-Z]?", r"a*", r"\p{Lu}", r"\p{Lu}+", r"[^\p{L}]+", r".", r".{1,4}",
    r"(?i:the|and)", r"(?i)ab|c", r"^.", r".$", r"\A.", r".\z", r"\n+", r"[\s&&[^ ]]", r"[[:punct:]]", r"[^\s]", r"[\p{L}\p{M}]+", r"\w+?", r"\p{Han}+|\p{Hiragana}+", r"\p{Greek}",
    r"\p{N}{1,3}", r"\p{S}|\p{P}", r"(?<!\s)\s", r"(\w)\1", r"▁+", r"\S\s", r"[​-‏]", r"\p{Cc}", r"\p{Cf}", r"\p{Z}+", r"\h+", r"\R", r"(?m:a.b)", r"[a-z&&[aeiou]]", r"[^\W\d_]+", r"\p{^L}", r"\P{L}", r"x{,2}y", r"[[a-c][x-z]]+", r"(?>a+)b?", r"(?:ab|a)(?:c|bcd)", r"\p{L}{2}?",
]  # fmt: skip
TEXTS = [" ", "▁", "e", "the", "  ", "a", "\n", ".", "<", "é", "e\u0301", "12", "``", "'", "of "]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def pattern(rng):
    return {"Regex": rng.choice(REGEXES)} if rng.random() < 0.7 else {"String": rng.choice(TEXTS)}


def flag(rng):
    return rng.random() < 0.5


def normalizer(rng, depth=0):
    kind = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Replace", "Lowercase", "Strip", "Sequence"])
    if kind == "Prepend":
        return {"type": kind, "prepend": rng.choice(["▁", " ", "x", "é", "ab "])}
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(rng), "content": rng.choice(["▁", " ", "", "$0", "x", "\\1", "ﬁ"])}
    if kind == "Strip":
        return {"type": kind, "strip_left": flag(rng), "strip_right": flag(rng)}
    if kind == "Sequence":
        return {"type": kind, "normalizers": [normalizer(rng, depth + 1) for _ in range(rng.randint(0, 3) if depth < 2 else 0)]}
    return {"type": kind}


def metaspace(rng):
    return {"type": "Metaspace", "replacement": rng.choice(["▁", "▁", "_", "x"]), "prepend_scheme": rng.choice(["always", "first", "never"]), "split": flag(rng)}


def byte_level(rng):
    return {"type": "ByteLevel", "add_prefix_space": flag(rng), "trim_offsets": flag(rng), "use_regex": flag(rng)}


def pre_tokenizer(rng, depth=0):
    kind = rng.choice(["ByteLevel", "Split", "Split", "Split", "Digits", "Metaspace", "Whitespace", "WhitespaceSplit", "Punctuation", "Sequence"])
    if kind == "ByteLevel":
        return byte_level(rng)
    if kind == "Metaspace":
        return metaspace(rng)
    if kind == "Split":
        return {"type": kind, "pattern": pattern(rng), "behavior": rng.choice(BEHAVIORS), "invert": flag(rng)}
    if kind == "Digits":
        return {"type": kind, "individual_digits": flag(rng)}
    if kind == "Punctuation":
        return {"type": kind, "behavior": rng.choice(BEHAVIORS)}
    if kind == "Sequence":
        return {"type": kind, "pretokenizers": [pre_tokenizer(rng, depth + 1) for _ in range(rng.randint(0, 3) if depth < 2 else 0)]}
    return {"type": kind}


def decoder(rng, depth=0):
    kind = rng.choice(["ByteLevel", "Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "Sequence"])
    if kind == "ByteLevel":
        return byte_level(rng)
    if kind == "Metaspace":
        return metaspace(rng)
    if kind == "Replace":
        return {"type": kind, "pattern": pattern(rng), "content": rng.choice([" ", "", "x"])}
    if kind == "Strip":
        return {"type": kind, "content": rng.choice([" ", "▁", "e"]), "start": rng.randint(0, 2), "stop": rng.randint(0, 2)}
    if kind == "Sequence":
        return {"type": kind, "decoders": [decoder(rng, depth + 1) for _ in range(rng.randint(1, 4) if depth < 2 else 1)]}
    return {"type": kind}


def template(rng, ids):
    if rng.random() < 0.6:
        return None
    token = rng.choice(sorted(ids))
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    if flag(rng):
        single.insert(0, {"SpecialToken": {"id": token, "type_id": 0}})
    if flag(rng):
        single.append({"SpecialToken": {"id": token, "type_id": 0}})
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    made = {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {token: {"id": token, "ids": [ids[token]], "tokens": [token]}}}
    if flag(rng):
        return {"type": "Sequence", "processors": [byte_level(rng), made]}
    return made


ADDED = ["<a>", "<b>", "<c>", "<d>", "word", "Mixed Case", "é", "e\u0301", "  ", "x<y", "<|endoftext|>", " the", "the", "th", "THE", "ﬁ", "\n", "▁", "12", "<a><b>", "Ⅷ", "a b", "\u0301"]


def added_tokens(rng, vocab):
    ids, made = dict(vocab), []
    for content in rng.sample(ADDED, rng.randint(0, 10)):
        token = ids.setdefault(content, len(ids))
        made.append({"id": token, "content": content, **{name: flag(rng) for name in ("single_word", "lstrip", "rstrip", "normalized", "special")}})
    return made


def models():
    byte = json.loads(known.byte_level([known.last_bytes(True)]).to_str())["model"]
    piece = json.loads(known.pieces().to_str())["model"]
    plain = json.loads(known.pieces(fallback=False).to_str())["model"]
    return {"byte": byte, "pieces": piece, "plain": plain}


def model(rng, kinds):
    kind = rng.choice(sorted(kinds))
    made = dict(kinds[kind])
    made["ignore_merges"], made["fuse_unk"], made["byte_fallback"] = flag(rng), flag(rng), flag(rng)
    if rng.random() < 0.3:
        made["unk_token"] = None
    if rng.random() < 0.2:  # an alphabet with holes
        used = {piece for merge in made["merges"] for piece in (*merge, "".join(merge))}
        keep = [piece for piece in made["vocab"] if piece in used or piece == made["unk_token"] or rng.random() < 0.7]
        made["vocab"] = {piece: i for i, piece in enumerate(keep)}
    return kind, made


def tokenizer(rng, kinds):
    kind, bpe = model(rng, kinds)
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(rng, bpe["vocab"])}
    file["normalizer"] = normalizer(rng) if rng.random() < 0.6 else None
    steps = [pre_tokenizer(rng) for _ in range(rng.randint(0, 2))] + ([byte_level(rng)] if kind == "byte" and rng.random() < 0.85 else [])
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else steps[0] if steps else None
    file["post_processor"] = template(rng, bpe["vocab"])
    file["decoder"] = decoder(rng) if rng.random() < 0.9 else None
    file["model"] = bpe
    return file


def ask(tessera, folder, data, *flags):
    command = [tessera, "tokenize", "--tokenizer", folder / "tokenizer.json", "--input", data, "--format", "jsonl", *flags]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/release/bin/tessera")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    words = sorted(set(" ".join(known.corpus()).split()))
    kinds = models()
    refused = collections.Counter()
    compared = wrong = theirs_refuse = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(options.count):
            rng = random.Random(f"{options.seed} {number}")
            file = tokenizer(rng, kinds)
            lines = known.texts(f"{options.seed} {number}", options.texts, words) + ["", " ", "a", "  the", "▁the", "<a>", " <a> <b>", "Ab12345"]
            (folder / "tokenizer.json").write_text(json.dumps(file))
            try:
                theirs = Tokenizer.from_str(json.dumps(file))
                # Of two tokens with one normal form the package takes either, from run to run.
                forms = collections.defaultdict(list)
                for token in file["added_tokens"]:
                    form = theirs.normalizer.normalize_str(token["content"]) if file["normalizer"] and token["normalized"] else token["content"]
                    forms[form, token["normalized"]].append(token)
                if any(len(tokens) > 1 for tokens in forms.values()):
                    continue
                expected = [theirs.encode(line).ids for line in lines]
            except BaseException as error:  # a panic of the package is no Exception
                theirs_refuse += 1
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            data = folder / "texts.jsonl"
            data.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
            out = ask(options.tessera, folder, data, "--ids", "--special")
            if out.returncode != 0:
                reason = " ".join(out.stderr.split())
                refused[reason[reason.find("tokenizer.json") :][:150]] += 1
                if out.returncode != 2:
                    wrong += 1
                    print(number, "code", out.returncode, reason)
                continue
            compared += 1
            got = [json.loads(line) for line in out.stdout.splitlines()]
            differ = [(t, a, b) for t, a, b in zip(lines, expected, got, strict=True) if a != b]
            for ids in filter(None, rng.sample(expected, 2)):
                try:
                    text = theirs.decode(ids)
                except BaseException:  # its Strip panics on a short piece
                    continue
                command = [options.tessera, "tokenize", "--tokenizer", folder / "tokenizer.json", "--decode", *map(str, ids)]
                decoded = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                if decoded != text:
                    differ.append((f"decoding {ids}", text, decoded))
            if differ:
                wrong += 1
                print(f"tokenizer {number}: {len(differ)} of {len(lines)} texts differ")
                short = {k: v for k, v in file.items() if k != "model"} | {k: v for k, v in file["model"].items() if k not in ("vocab", "merges")}
                print("   ", json.dumps(short))
                for text, a, b in sorted(differ, key=lambda d: len(d[0]))[:2]:
                    print("   ", ascii(text), ascii(a), ascii(b), sep="\n      ")
                    if not text.startswith("decoding"):
                        print("      ", [theirs.id_to_token(i) for i in a][:12], [theirs.id_to_token(i) for i in b][:12])
                if options.keep:
                    at = options.keep / str(number)
                    at.mkdir(parents=True, exist_ok=True)
                    (at / "tokenizer.json").write_text(json.dumps(file))
                    (at / "texts.jsonl").write_text(data.read_text())
            sys.stdout.flush()
    print(f"{compared} tokenizers compared on {options.texts} texts each, {wrong} differ; {theirs_refuse} refused by the package; {sum(refused.values())} refused here:")
    for reason, times in refused.most_common():
        print(f"  {times:4} {reason}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
