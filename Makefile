# What a user types. Everything is installed as needed by tools/setup.sh; nothing else comes first.
#
#   make build      programs in build/release/bin
#   make train      trains a small Llama on 8 ranks, two or three minutes
#   make finetune   from text to answers: tokenizer, a small base, low-rank adapters, three questions; about five minutes
#   make test       builds everything, runs all tests
#   make matrix     every layout of the end-to-end tables, not only each pair of values
#   make fuzz       every reader of files, flags and variables against libFuzzer; FUZZ_SECONDS=60 each
#   make chaos      a run that is hit by random faults beside one that is not: the same losses; FAULTS=30  SEED=1
#   make bench      tokens per second and memory of the cases in benchmarks/, as a table
#                   PEER=DIR: beside a peer, in turns; CASES=a,b  ROUNDS=3  RANKS=threads,processes  RESULTS=FILE
#   make plan-check predicted seconds of a step beside measured ones (tessera calibrate first), and published tables
#   make benchmarks programs that measure kernels, collectives, pipelines, checkpoints
#   make check      format, floors, tests
#   make install PREFIX=/usr/local
#
# PRESET=debug|asan|tsan builds elsewhere (build/<preset>); TESSERA_TORCH_DIR uses an installed torch.

PRESET ?= release
PREFIX ?= /usr/local
export PYTHON ?= python3
JOBS ?= $(shell tools/jobs.sh)
BUILD := build/$(PRESET)

.PHONY: build all test matrix fuzz chaos train finetune bench plan-check benchmarks check format install clean

build: $(BUILD)/.configured
	@ninja -C $(BUILD) -j $(JOBS) --quiet programs

all: $(BUILD)/.configured
	@ninja -C $(BUILD) -j $(JOBS) --quiet

.PHONY: $(BUILD)/.configured
$(BUILD)/.configured:
	@tools/setup.sh
	@cmake --preset $(PRESET) --log-level=WARNING -D TESSERA_TORCH_DIR="$$TESSERA_TORCH_DIR" >/dev/null

test: all
	@ctest --preset $(PRESET) -j $(JOBS)

matrix: all
	@TESSERA_MATRIX=full ctest --preset $(PRESET) -L e2e

fuzz:
	@tools/fuzz.sh

chaos: build
	@$(PYTHON) tools/chaos.py $(BUILD)/bin $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED))
	@[ $$(id -u) != 0 ] || tools/partition_trials.sh $(BUILD)/bin

train: build
	@tools/train_demo.sh $(BUILD)/bin

finetune: build
	@tools/finetune_demo.sh $(BUILD)/bin

bench: build
	@ninja -C $(BUILD) -j $(JOBS) --quiet gemm_peak
	@$(PYTHON) benchmarks/bench.py run --programs $(BUILD)/bin $(if $(PEER),--peer $(PEER)) \
	  $(if $(CASES),--cases $(CASES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RANKS),--ranks $(RANKS)) \
	  --results $(if $(RESULTS),$(RESULTS),$(BUILD)/bench.jsonl)

plan-check: build
	@ninja -C $(BUILD) -j $(JOBS) --quiet gemm_peak
	@$(BUILD)/bin/tessera calibrate
	@$(PYTHON) benchmarks/plan_check.py --programs $(BUILD)/bin --rounds $(or $(ROUNDS),3) --results $(BUILD)/plan_check.jsonl
	@$(PYTHON) benchmarks/published.py $(BUILD)/bin/tessera

benchmarks: $(BUILD)/.configured
	@tools/setup.sh --benchmarks
	@ninja -C $(BUILD) -j $(JOBS) --quiet benchmarks

check:
	@tools/check.sh

format:
	@tools/sources.sh | xargs clang-format -i

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
