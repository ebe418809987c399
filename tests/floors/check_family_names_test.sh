#!/usr/bin/env bash
# Plants comparisons with names of families and wants each of them caught, then what is right.
set -euo pipefail
check=check_family_names.sh
# A line, in a tree with one family.
plant() {
  mkdir -p "$tree/tessera/config/families"
  printf 'f.model_type = "wide3";\nf.architecture = "Wide3ForCausalLM";\n' > "$tree/tessera/config/families/wide3.cpp"
  printf '%s\n' "$2" >> "$tree/$1"
}
. "$(dirname "$0")/planted.sh"

refused tessera/planner/x.cpp 'if (m.model_type == "wide3") return 1;'
refused tessera/rules/x.cpp 'if (m.model_type != "another") return 1;'
refused tessera/config/x.cpp 'if (type == "wide3") return 1;'
refused tessera/config/x.cpp 'if (m.model_type.starts_with("wide")) return 1;'
refused tessera/models/x.h 'const char* kDense[] = {"wide3"};'
refused apps/tessera/x.cpp 'if (architecture == "Wide3ForCausalLM") return 1;'

accepted tessera/config/families/narrow.cpp 'f.model_type = "narrow";'
accepted tessera/rules/x.cpp '"must be false for wide3; narrow has it"'
accepted tessera/rules/x.cpp 'if (m.model_type == other.model_type) return 1;'
accepted tessera/rules/x.cpp 'if (m.model_type.empty()) return 1;'

finish "family names test"
