# What a user types. Everything is installed as needed by tools/setup.sh; nothing else comes first.
#
#   make build      programs in build/release/bin
#   make train      trains a small Llama on 8 ranks, two or three minutes
#   make test       builds everything, runs all tests
#   make matrix     every layout of the end-to-end tables, not only each pair of values
#   make bench      throughput of a few shapes
#   make check      format, floors, tests
#   make install PREFIX=/usr/local
#
# PRESET=debug|asan|tsan builds elsewhere (build/<preset>); TESSERA_TORCH_DIR uses an installed torch.

PRESET ?= release
PREFIX ?= /usr/local
JOBS ?= $(shell tools/jobs.sh)
BUILD := build/$(PRESET)

.PHONY: build all test matrix train bench check format install clean

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

train: build
	@tools/train_demo.sh $(BUILD)/bin

bench: build
	@tools/bench.sh $(BUILD)/bin

check:
	@tools/check.sh

format:
	@tools/sources.sh | xargs clang-format -i

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build
