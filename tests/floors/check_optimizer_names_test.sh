#!/usr/bin/env bash
# Plants comparisons with names of optimizers and wants each of them caught, then what is right.
set -euo pipefail
check=check_optimizer_names.sh
# A line, in a tree with one optimizer.
plant() {
  mkdir -p "$tree/tessera/config"
  printf '      {.name = "Steep",\n' > "$tree/tessera/config/optimizer_kind.cpp"
  printf '%s\n' "$2" >> "$tree/$1"
}
. "$(dirname "$0")/planted.sh"

refused tessera/planner/x.cpp 'if (config.optimizer.type == "Steep") return 2;'
refused tessera/planner/x.cpp 'if (config.optimizer.type != "another") return 2;'
refused tessera/optim/x.cpp 'if (type == "Steep") return 1;'
refused tessera/rules/x.cpp 'if (config.optimizer.kind->name == "another") return 1;'
refused tessera/config/optimizer_config.h 'const char* kOther = "Steep";'
refused apps/tessera/x.cpp 'print("Steep");'

accepted tessera/config/optimizer_kind.cpp '      {.name = "Flat",'
accepted tessera/optim/optimizers.cpp '      {"Steep", make_steep},'
accepted tessera/config/optimizer_config.h '  std::string type = "Steep";                 // of `kind`'
accepted tessera/rules/x.cpp 'if (a.optimizer.type == b.optimizer.type) return;'
accepted tessera/config/x.cpp '"Steep: two decays of the moments"'

finish "optimizer names test"
