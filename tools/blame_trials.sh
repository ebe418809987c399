#!/usr/bin/env bash
# Whether msrun names the rank that is at fault: trains on 4 workers (tp 2, pp 2), stops or kills one of them in a
# step, and looks at the report. Usage: blame_trials.sh <folder of programs> [trials, 28] [first trial, 0]
#
# Trial n is about rank n mod 4; even rounds of four stop it (SIGSTOP), odd ones kill it (SIGKILL).
set -euo pipefail
cd "$(dirname "$0")/.."
readonly programs="$(cd "$1" && pwd)" trials="${2:-28}" first="${3:-0}"
readonly config="$PWD/tests/cases/llama_sgd64/config.yaml"
export OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

wrong=0
for ((trial = first; trial < first + trials; ++trial)); do
  rank=$((trial % 4))
  signal=STOP
  ((trial / 4 % 2)) && signal=KILL
  port=$((20000 + (RANDOM * 7 + trial) % 30000))
  rm -rf out logs
  "$programs/msrun" --worker_num=4 --master_port=$port --join=True --log_dir=logs run_mindformer.py --config "$config" \
    --set parallelism.tensor_parallel=2 --set parallelism.pipeline_parallel=2 \
    --set parallelism.pipeline_parallel_layers_per_stage=auto --set training.local_batch_size=2 \
    --set training.steps=100000 --set training.timeout_seconds=3 --set output_dir=out >stdout 2>report &
  launcher=$!
  until [[ "$(grep -cs loss out/metrics.jsonl || true)" -ge $((2 + trial % 5)) ]]; do
    kill -0 $launcher 2>/dev/null || { cat report; echo "trial $trial: no steps"; exit 1; }
    sleep 0.05
  done
  for worker in $(cat /proc/$launcher/task/$launcher/children); do
    tr '\0' '\n' <"/proc/$worker/environ" | grep -qx "RANK=$rank" && kill -$signal "$worker"
  done
  code=0
  wait $launcher || code=$?
  case $signal in
    STOP) expected="^error: rank $rank is stopped by a signal or a debugger in step [0-9]+" ;;
    KILL) expected="^error: rank $rank was killed by signal 9 \(Killed\) in step [0-9]+" ;;
  esac
  verdict=right
  if [[ $code != 3 ]] || ! grep -qE "$expected" report || ! grep -q "waited for rank $rank: " report; then
    verdict=WRONG
    wrong=$((wrong + 1))
    cat report
  fi
  echo "trial $trial: SIG$signal to rank $rank: code $code, $verdict: $(grep ^error: report)"
done
echo "$wrong of $trials trials named the wrong rank"
((wrong == 0))
