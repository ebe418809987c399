#!/usr/bin/env bash
# Trains a small Llama on 8 ranks on text that every Debian has: its licences. Usage: train_demo.sh <folder of programs>
set -euo pipefail
cd "$(dirname "$0")/.."
readonly tessera="$1/tessera"
readonly tokens=data/train_small  # what configs/train_small.yaml reads

if [[ ! -e "$tokens.idx" ]]; then
  mkdir -p "$(dirname "$tokens")"
  mapfile -t texts < <(find /usr/share/common-licenses -type f | sort)
  "$tessera" preprocess --input "${texts[@]}" --output "$tokens" --tokenizer byte --append-eod
fi

"$tessera" train --config configs/train_small.yaml --ranks 8
echo "results: $PWD/output (metrics.jsonl has one object per step, config.yaml all values of the run)"
