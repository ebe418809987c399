#!/usr/bin/env python3
"""Ids of `tessera tokenize` against those of Hugging Face's `tokenizers` on random texts, for tokenizers of many kinds.

    python benchmarks/tokenizers_compare.py --tessera build/release/bin/tessera --count 100000

Needs `pip install tokenizers`. Trains the tokenizers on the licences of /usr/share/common-licenses, draws texts of characters
that Unicode 14 has assigned, of pieces of prose and of added tokens, and prints one line a tokenizer; the exit code is 1 if any differs."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
POSSESSIVE = r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
WORDS = r"\b\w+\b|\W|\d+"


def corpus():
    folder = Path("/usr/share/common-licenses")
    return [line for f in sorted(folder.iterdir()) if f.is_file() and not f.is_symlink() for line in f.read_text(errors="replace").splitlines(True)]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def byte_level(steps, normalizer=None, size=900, trained_with=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    own = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    tokenizer.pre_tokenizer = trained_with or own
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.pre_tokenizer = own
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer


def last_bytes(use_regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def empty_matches(pattern, *options):
    """Cut where the pattern matches nothing, over pieces that reach across such places."""
    return byte_level([split(pattern, *options), last_bytes()], trained_with=last_bytes())


def pieces(pre=None, normalizer=None, decoder=None, fallback=True, fuse=True, trained_with=None):
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = trained_with or pre_tokenizers.Metaspace(prepend_scheme="always")
    trained.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=700, show_progress=False, limit_alphabet=90))
    model = json.loads(trained.to_str())["model"]
    names = sorted(model["vocab"], key=model["vocab"].get)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256) if fallback), *names]
    file = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {**model, "unk_token": "<unk>", "fuse_unk": fuse, "byte_fallback": fallback, "vocab": {t: i for i, t in enumerate(dict.fromkeys(tokens))}},
    }  # fmt: skip
    tokenizer = Tokenizer.from_str(json.dumps(file))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    return tokenizer


def back():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def with_flags(tokenizer):
    """Added tokens with every combination of flags."""
    names = ["<a>", "<b>", "<c>", "<d>", "word", "Mixed Case", "é", "  ", "x<y"]
    for i, name in enumerate(names):
        tokenizer.add_tokens([AddedToken(name, single_word=i % 2 == 1, lstrip=i % 3 == 1, rstrip=i % 4 == 2, normalized=i % 2 == 0, special=i % 5 == 3)])
    return tokenizer


def with_blanks(tokenizer):
    """Tokens of white space that take the white space around them."""
    tokenizer.add_tokens([AddedToken("\n", lstrip=True, rstrip=True), AddedToken("\t", rstrip=True), AddedToken(" x", lstrip=True)])
    return tokenizer


def with_holes(tokenizer):
    """Without every third byte of the fallback."""
    file = json.loads(tokenizer.to_str())
    vocab = file["model"]["vocab"]
    kept = [t for t in vocab if not (t.startswith("<0x") and int(t[3:5], 16) % 3 == 0)]
    file["model"]["vocab"] = {t: i for i, t in enumerate(kept)}
    for token in file["added_tokens"]:
        token["id"] = file["model"]["vocab"][token["content"]]
    return Tokenizer.from_str(json.dumps(file))


def with_template(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(single="<|im_start|> $A <|im_end|>", special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


N, P, S = normalizers, pre_tokenizers, split
ALL = {
    "gpt2": lambda: byte_level([last_bytes(True)]),
    "gpt2_prefix": lambda: with_flags(byte_level([last_bytes(True, True)])),
    "llama3": lambda: with_template(byte_level([S(LLAMA3), last_bytes()], ignore_merges=True)),
    "qwen_nfc": lambda: byte_level([S(QWEN), last_bytes()], N.NFC()),
    "o200k": lambda: byte_level([S(O200K), last_bytes()]),
    "deepseek": lambda: byte_level([*map(S, DEEPSEEK), last_bytes()]),
    "bloom": lambda: byte_level([S(BLOOM), last_bytes()]),
    "possessive": lambda: byte_level([S(POSSESSIVE), last_bytes()]),
    "words": lambda: byte_level([S(WORDS), last_bytes()]),
    "removed": lambda: byte_level([S(r"\s+", "removed"), last_bytes()]),
    "inverted": lambda: byte_level([S(r"\p{L}+", "removed", True), last_bytes()]),
    "previous": lambda: byte_level([S(r"[\s,.]", "merged_with_previous"), last_bytes()]),
    "next": lambda: byte_level([S(r"[\s,.]", "merged_with_next"), last_bytes()]),
    "contiguous": lambda: byte_level([S(r"[\s,.]", "contiguous"), last_bytes()]),
    "nfd": lambda: byte_level([S(LLAMA3), last_bytes()], N.NFD()),
    "nfkc": lambda: byte_level([S(LLAMA3), last_bytes()], N.NFKC()),
    "lower_strip": lambda: with_flags(byte_level([last_bytes(True)], N.Sequence([N.NFC(), N.Lowercase(), N.Strip()]))),
    "digits": lambda: byte_level([P.Digits(individual_digits=True), last_bytes(True)]),
    "digit_runs": lambda: byte_level([P.Digits(individual_digits=False), last_bytes(True)]),
    "whitespace": lambda: byte_level([P.Whitespace(), last_bytes()]),
    "whitespace_split": lambda: byte_level([P.WhitespaceSplit(), last_bytes()]),
    **{f"punctuation_{b}": lambda b=b: byte_level([P.Punctuation(b), last_bytes()]) for b in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")},
    "llama2": lambda: pieces(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), back()),
    "gemma": lambda: pieces(P.Split(" ", "merged_with_previous"), N.Replace(" ", "▁"), decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])),
    "metaspace_first": lambda: with_flags(pieces(P.Metaspace(prepend_scheme="first", split=False), None, back())),
    "metaspace_always": lambda: pieces(P.Metaspace(prepend_scheme="always", split=True), None, decoders.Metaspace()),
    "metaspace_never": lambda: pieces(P.Metaspace(prepend_scheme="never", split=True), None, decoders.Metaspace(prepend_scheme="never")),
    "unknown_fused": lambda: pieces(P.Metaspace(), None, decoders.Metaspace(), fallback=False),
    "unknown_single": lambda: pieces(P.Metaspace(), None, decoders.Metaspace(), fallback=False, fuse=False),
    "threes_from_right": lambda: empty_matches(r"(?=([\da-z]{3})+(?![\da-z]))", "isolated"),
    "empty_removed": lambda: empty_matches(r"x?", "removed"),
    "empty_previous": lambda: empty_matches(r"(?=[A-Zo])|a*", "merged_with_previous"),
    "empty_next": lambda: empty_matches(r"(?<=[e-m])|\s*", "merged_with_next", True),
    "empty_contiguous": lambda: empty_matches(r"\b|o|(?=n)", "contiguous"),
    "scripts": lambda: byte_level([S(r"\p{Han}+|\p{Hiragana}+|[\p{Arabic}\p{Greek}]+|\p{^Common}|[[:punct:]]+|\p{Lowercase_Letter}"), last_bytes(prefix=True)]),
    "blanks": lambda: with_blanks(byte_level([last_bytes(True)], N.NFKC())),
    "holes": lambda: with_holes(pieces(P.Metaspace(), None, back(), fuse=False)),
    "holes_fused": lambda: with_holes(pieces(P.Metaspace(), None, back())),
    "replace_regex": lambda: byte_level([last_bytes(True)], N.Sequence([N.Replace(Regex(r"\s{2,}"), " "), N.Replace("``", '"')])),
}  # fmt: skip


def assigned():
    """Characters of Unicode 14 (Python 3.11's), without surrogates and private use."""
    return [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def texts(seed, count, words):
    rng, letters = random.Random(seed), assigned()
    common = [c for c in letters if ord(c) < 0x250]
    marks = [c for c in letters if unicodedata.combining(c)]
    added = ["<a>", "<b>", "<c>", "<d>", "word", "Mixed Case", "é", "  ", "x<y", "<|endoftext|>", "<s>", "</s>", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "```", "▁", "12345", "\n\n \n", "fi", "ﬁ", "1234567", " x", "(株)"]
    made = []
    for _ in range(count):
        kind = rng.random()
        parts = []
        for _ in range(rng.randint(1, 25)):
            draw = rng.random()
            if kind < 0.4:
                parts.append(rng.choice(letters))
            elif draw < 0.35:
                parts.append(rng.choice(words))
            elif draw < 0.55:
                parts.append(rng.choice(added))
            elif draw < 0.75:
                parts.append(rng.choice(common))
            elif draw < 0.85:
                parts.append(rng.choice(marks))
            else:
                parts.append(rng.choice(letters))
        made.append("".join(parts))
    return made


def ours(tessera, folder, lines, special):
    data = folder / "texts.jsonl"
    data.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines))
    flags = ["--special"] if special else []
    out = subprocess.run([tessera, "tokenize", "--tokenizer", folder / "tokenizer.json", "--input", data, "--format", "jsonl", "--ids", *flags], stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tessera", default="build/release/bin/tessera")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--keep", type=Path, help="writes NAME/tokenizer.json and NAME/cases.jsonl there")
    options = parser.parse_args()
    words = sorted(set(" ".join(corpus()).split()))
    lines = texts(options.seed, options.count, words)
    wrong = 0
    for name in options.only or ALL:
        tokenizer = ALL[name]()
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep / name if options.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tokenizer.json").write_text(tokenizer.to_str())
            differ = []
            for special in (False, True):
                theirs = [e.ids for e in tokenizer.encode_batch(lines, add_special_tokens=special)]
                got = ours(options.tessera, folder, lines, special)
                differ += [(t, a, b) for t, a, b in zip(lines, theirs, got, strict=True) if a != b]
            if options.keep:
                cases = [{"text": t, "ids": (ids := tokenizer.encode(t, add_special_tokens=False).ids), "ids_with_special": tokenizer.encode(t).ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False), "decoded_without_special": tokenizer.decode(ids)} for t in lines]
                (folder / "cases.jsonl").write_text("".join(json.dumps(c) + "\n" for c in cases))
        print(f"{name:28} {len(lines)} texts, {len(differ)} differ", flush=True)
        for text, a, b in differ[:3]:
            print("   ", ascii(text), a, b, sep="\n      ")
        wrong += bool(differ)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
