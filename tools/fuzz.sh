#!/usr/bin/env bash
# Searches every reader for inputs that crash it, hang it, or trip a sanitizer (tests/fuzz).
#
#   tools/fuzz.sh [TARGET...]    all targets, or those named
#
# FUZZ_SECONDS=60 is how long each is searched, FUZZ_HANG=1 how many seconds an input may take (more beside other work). What is found lies in build/fuzz/found; put it into
# tests/fuzz/corpus/TARGET, where the tests replay it. FUZZ_KEEP=1 adds the inputs that reached new code.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly seconds="${FUZZ_SECONDS:-60}" build="$PWD/build/fuzz"
tools/setup.sh --fuzz
cmake --preset fuzz --log-level=WARNING >/dev/null
ninja -C "$build" -j "$(tools/jobs.sh)" --quiet fuzzers

targets=("$@")
if ((${#targets[@]} == 0)); then
  for folder in tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi

# The names of all fields are words that chance does not find.
mkdir -p "$build/found"
grep -oE '`[a-z_][a-z_0-9.]*`' docs/config.md | tr -d '`' | tr . '\n' | sort -u | sed 's/.*/"&"/' >"$build/words.dict"

failed=0
for target in "${targets[@]}"; do
  corpus="tests/fuzz/corpus/$target" grown="$build/corpus/$target"
  mkdir -p "$grown"
  log="$build/$target.log"
  # Leaks are looked for at the end, since the readers allocate much and a look takes long.
  if TMPDIR=/dev/shm "$build/bin/fuzz_$target" "$grown" "$corpus" -dict="$build/words.dict" -max_total_time="$seconds" -timeout="${FUZZ_HANG:-1}" \
    -rss_limit_mb=2048 -max_len=16384 -detect_leaks=0 -print_final_stats=1 \
    -artifact_prefix="$build/found/$target-" >"$log" 2>&1; then
    verdict=ok
  else
    verdict="FAULT, see $log"
    failed=1
  fi
  echo "fuzz: $target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") executions," \
    "$(find "$grown" "$corpus" -type f | wc -l) inputs: $verdict"
  if [[ -n "${FUZZ_KEEP:-}" ]]; then
    "$build/bin/fuzz_$target" -merge=1 -max_len=4096 "$corpus" "$grown" >>"$log" 2>&1 || true
  fi
done
exit "$failed"
