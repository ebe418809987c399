#!/usr/bin/env bash
# Plants comparisons with names of optimizers and wants each of them caught, then what is right.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
tree="$(mktemp -d)"
trap 'rm -rf "$tree"' EXIT

# verdict FILE LINE: what check_optimizer_names.sh says of a tree with one optimizer and that one line.
verdict() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/tessera/config" "$tree/$(dirname "$1")"
  printf '      {.name = "Steep",\n' > "$tree/tessera/config/optimizer_kind.cpp"
  printf '%s\n' "$2" >> "$tree/$1"
  "$here/check_optimizer_names.sh" "$tree" > "$tree/report" 2>&1
}

failures=0
refused() { if verdict "$@"; then echo "not caught in $1: $2"; failures=$((failures + 1)); fi; }
accepted() { if ! verdict "$@"; then echo "wrongly caught in $1: $2"; failures=$((failures + 1)); fi; }

refused tessera/planner/x.cpp 'if (config.optimizer.type == "Steep") return 2;'
refused tessera/planner/x.cpp 'if (config.optimizer.type != "another") return 2;'
refused tessera/optim/x.cpp 'if (type == "Steep") return 1;'
refused tessera/rules/x.cpp 'if (config.optimizer.kind->name == "another") return 1;'
refused tessera/config/config.h 'const char* kOther = "Steep";'
refused apps/tessera/x.cpp 'print("Steep");'

accepted tessera/config/optimizer_kind.cpp '      {.name = "Flat",'
accepted tessera/optim/optimizers.cpp '      {"Steep", make_steep},'
accepted tessera/config/config.h '  std::string type = "Steep";                 // of `kind`'
accepted tessera/rules/x.cpp 'if (a.optimizer.type == b.optimizer.type) return;'
accepted tessera/config/x.cpp '"Steep: two decays of the moments"'

((failures == 0)) && echo "optimizer names test: ok"
