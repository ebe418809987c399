#!/usr/bin/env bash
# Plants axis names as text where they do not belong and wants each caught, then where they do.
set -euo pipefail
check=check_axis_names.sh
plant() { printf '%s\n' "$2" > "$tree/$1"; }
. "$(dirname "$0")/planted.sh"

refused tessera/parallel/x.cpp 'const bool cut = axis == "tp";'
refused tessera/comm/x.h 'row.cuts.push_back({"efsdp", 0, 1});'
refused tessera/planner/x.cpp 'plan["dp_replicate"] = sum / 2;'
refused tessera/layout/placement.cpp 'return {{"ep", 0, 1}};'
refused apps/tessera/x.cpp 'print("cp");'

accepted tessera/layout/axis.cpp 'case Axis::kTp: return "tp";'
accepted tessera/config/x.cpp 'field("tp");'
accepted tessera/rules/x.cpp 'complain("ep");'
accepted tessera/planner/plan_json.cpp 'json["fsdp"] = dims.fsdp();'
accepted tessera/train/x.cpp 'std::string loss = "loss";'
accepted tessera/parallel/x.cpp '/// The names are "tp" and "cp".'
accepted tessera/parallel/x.cpp 'const bool cut = axis == Axis::kTp;'

finish "axis names test"
