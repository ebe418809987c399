#!/usr/bin/env bash
# What msrun does when the network between two nodes parts: two network namespaces on this machine, a launcher in each,
# workers that only wait. Needs root. Usage: partition_trials.sh <folder of programs>
#
# A short interruption is not noticed. After a longer one both sides end their workers and meet again when the network is
# back; when it stays away both end with code 3, and no side starts alone. A node 0 that was dead for a while goes on.
set -euo pipefail
[[ $(id -u) == 0 ]] || { echo "partition_trials.sh: network namespaces need root"; exit 2; }
programs=$(cd "$1" && pwd)
work=$(mktemp -d)
readonly a=tessera_a_$$ b=tessera_b_$$
cleanup() {
  for name in $a $b; do
    for pid in $(ip netns pids $name 2>/dev/null); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns del $name 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
ip netns add $a
ip netns add $b
ip link add veth_a netns $a type veth peer name veth_b netns $b
ip -n $a addr add 10.77.0.1/24 dev veth_a
ip -n $b addr add 10.77.0.2/24 dev veth_b
for side in a b; do
  name=tessera_${side}_$$
  ip -n "$name" link set lo up
  ip -n "$name" link set "veth_$side" up
done
link() { ip -n $a link set veth_a "$1"; }

cd "$work"
mkdir bin
cp "$programs"/{msrun,tessera} bin/
printf '#!/bin/sh\ntouch "start$TESSERA_GENERATION.$RANK"\nuntil [ -e finish ]; do sleep 0.1; done\n' >bin/tessera-engine
chmod +x bin/tessera-engine
cat >x.yaml <<'YAML'
training: {steps: 2, global_batch_size: 8}
checkpoint: {enable_save: false}
lr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.0e-3, warmup_steps: 0}
train_dataset:
  dataloader:
    type: BlendedMegatronDatasetDataLoader
    config: {seq_length: 16, data_path: [tokens], split: "1,0,0"}
model: {model_type: llama, vocab_size: 258, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2,
        num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8, compute_dtype: float32}
YAML
head -c 5000 /dev/zero | tr '\0' a >text
bin/tessera preprocess --input text --output tokens >/dev/null 2>&1

declare -A pids
node() {  # number, seconds to meet
  local name=$a
  [[ $1 == 1 ]] && name=$b
  ip netns exec $name bin/msrun --worker_num=2 --local_worker_num=1 --master_addr=10.77.0.1 --master_port=8118 \
    --node_rank="$1" --join=True --max_restarts=9 --heartbeat_timeout=4 --cluster_time_out="$2" --log_dir=logs \
    run_mindformer.py --config x.yaml >"out$1" 2>&1 &
  pids[$1]=$!
}
begin() {
  rm -f start* finish
  node 0 "$1"
  node 1 "$1"
  await start1.0 start1.1
}
await() {
  for file in "$@"; do
    for ((i = 0; i < 6000; ++i)); do [[ -e $file ]] && break; sleep 0.1; done
    [[ -e $file ]] || fail "no $file"
  done
}
fail() {
  echo "$trial: $1"
  tail -n 20 out0 out1
  exit 1
}
ends_with() {  # node, code
  local code=0
  wait "${pids[$1]}" || code=$?
  [[ $code == "$2" ]] || fail "node $1 ended with $code, not with $2"
}
ends_well() {
  touch finish
  ends_with 0 0
  ends_with 1 0
}

trial="an interruption of one second"
begin 60
link down; sleep 1; link up
sleep 6
ends_well
[[ ! -e start2.0 && ! -e start2.1 ]] || fail "it started again"
echo "$trial: nothing happened"

trial="an interruption of twelve seconds"
begin 60
since=$SECONDS
link down; sleep 12; link up
await start2.0 start2.1
echo "$trial: the second start began $((SECONDS - since)) s after it"
ends_well

trial="a network that stays away"
begin 8
since=$SECONDS
link down
ends_with 0 3
ends_with 1 3
[[ ! -e start2.0 && ! -e start2.1 ]] || fail "a side started alone"
echo "$trial: both sides ended with code 3 after $((SECONDS - since)) s"
link up

trial="node 0 dead for some seconds"
begin 60
kill -KILL "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true
sleep 8
node 0 60
await start2.0 start2.1
ends_well
echo "$trial: it went on with its second start"
