#!/usr/bin/env bash
# From text to answers: makes a tokenizer of text that every Debian has, trains a small base, fine-tunes it with low-rank
# adapters on questions about the installed packages, and asks three. Usage: finetune_demo.sh <folder of programs>
set -euo pipefail
cd "$(dirname "$0")/.."
readonly tessera="$1/tessera" data=data/finetune out=output/finetune
mkdir -p "$data" "$out"
step() { printf '\n== %s\n' "$*"; }
# Of the steps every fiftieth.
trained() { asked train "$@" | grep -vE 'step:\[ *[0-9]*([1-9]|[1-46-9]0)/'; }
asked() { printf '$ tessera %s\n' "$*"; "$tessera" "$@"; }

step "text of this machine: descriptions of its packages, licences"
awk -v out="$data/questions.jsonl" -v held_out="$data/held_out.jsonl" -v texts="$data/packages.jsonl" \
  -f tools/instructions.awk /var/lib/dpkg/status
wc -l "$data"/packages.jsonl "$data"/questions.jsonl "$data"/held_out.jsonl

if [[ ! -e "$data/text.idx" ]]; then
  step "a tokenizer of that text, and token files"
  mapfile -t licences < <(find /usr/share/common-licenses -type f | sort)
  asked train-tokenizer --input "$data/packages.jsonl" "${licences[@]}" --output "$data/tokenizer" --vocab-size 2048 \
    --special '<|endoftext|>' '<|im_start|>' '<|im_end|>'
  asked preprocess --input "$data/packages.jsonl" "${licences[@]}" --tokenizer "$data/tokenizer" --append-eod --output "$data/text"
fi
for set in questions held_out; do
  asked preprocess --input "$data/$set.jsonl" --tokenizer "$data/tokenizer" --chat-template chatml --seq-length 128 --packing \
    --output "$data/$set"
done

if [[ ! -e "$out/base/model.safetensors" ]]; then
  step "a base: a small Llama on the text"
  trained --config configs/finetune_base.yaml --ranks 2
  rm -rf "$out/base"
  asked export --checkpoint "$out/base_run/checkpoint" --tokenizer "$data/tokenizer" --output "$out/base"
fi

step "the loss on questions that are held out, before"
asked evaluate --config configs/finetune_adapters.yaml --ranks 2 --model "$out/base"

step "low-rank adapters on the other questions"
rm -rf "$out/adapters_run" "$out/adapter" "$out/merged"
trained --config configs/finetune_adapters.yaml --ranks 2

step "a folder that PEFT reads, and a plain model"
asked export --checkpoint "$out/adapters_run/checkpoint" --output "$out/adapter" --adapter
asked export --checkpoint "$out/adapters_run/checkpoint" --output "$out/merged" --merge

step "the loss after"
asked evaluate --config configs/finetune_adapters.yaml --ranks 2 --model "$out/base" --adapter "$out/adapter"

step "three questions"
printf '{"messages": [{"role": "user", "content": "%s"}]}\n' \
  'What is bash?' 'Which section holds coreutils?' 'What is tar?' >"$data/asked.jsonl"
asked generate --model "$out/merged" --chat chatml --input "$data/asked.jsonl" --max-new-tokens 48
echo "results: $PWD/$out (adapter: for PEFT; merged: for any program that reads Hugging Face folders)"
