#!/usr/bin/env bash
# Tokens per second of the runs in benchmarks/, on one rank and on eight thread ranks of one thread each.
# Usage: bench.sh <folder of programs>
set -euo pipefail
cd "$(dirname "$0")/.."
readonly tessera="$1/tessera"
export OMP_NUM_THREADS=1
output="$(mktemp -d)"
trap 'rm -rf "$output"' EXIT

mapfile -t texts < <(find /usr/share/common-licenses -type f | sort)
"$tessera" preprocess --input "${texts[@]}" --output "$output/tokens" --tokenizer byte --append-eod >/dev/null

# The median leaves out the first steps, which are slower.
median() {
  sed -n 's/.*"tokens_per_second": *\([0-9.e+]*\).*/\1/p' "$1" | sort -g | awk '
    { rate[NR] = $1 }
    END { printf "%.0f\n", rate[int((NR + 1) / 2)] }'
}

printf '%-12s %6s %12s\n' run ranks tokens/s
for config in benchmarks/*.yaml; do
  name="$(basename "$config" .yaml)"
  batch="$(sed -n 's/^ *global_batch_size: *//p' "$config")"
  for ranks in 1 8; do
    "$tessera" train --config "$config" --ranks "$ranks" --set "output_dir=$output/$name-$ranks" \
      --set "training.local_batch_size=$((batch / ranks))" \
      --set "train_dataset.dataloader.config.data_path=[$output/tokens]" >"$output/log" 2>&1 ||
      { cat "$output/log" >&2; exit 1; }
    printf '%-12s %6d %12s\n' "$name" "$ranks" "$(median "$output/$name-$ranks/metrics.jsonl")"
  done
done
