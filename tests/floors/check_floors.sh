#!/usr/bin/env bash
# Fails on an include that the floors do not allow (docs/design.md). Usage: check_floors.sh <repository root>
#
# A folder of tessera/ includes its own headers and those of lower floors only.
set -euo pipefail
cd "$1"

find $(ls -d tessera apps 2>/dev/null) \( -name '*.h' -o -name '*.cpp' \) -print0 | sort -z | xargs -0 --no-run-if-empty awk '
BEGIN {
  free = "base config schedule data layout rules storage planner launcher observe"  # floors 0 to 5, all without torch
  allowed["base"] = ""
  allowed["config"] = allowed["schedule"] = allowed["data"] = "base"
  allowed["layout"] = "base config schedule data"
  allowed["rules"] = "base config schedule data layout"
  allowed["storage"] = "base config data layout"
  allowed["planner"] = "base config schedule data layout rules storage"
  allowed["launcher"] = "base config layout rules storage planner"
  allowed["observe"] = "base config schedule data layout rules storage planner"
  allowed["comm"] = free
  allowed["nn"] = free
  allowed["models"] = free " nn"
  allowed["parallel"] = allowed["optim"] = allowed["checkpoint"] = free " comm nn models"
  allowed["train"] = free " comm nn models parallel optim checkpoint"
  allowed["generate"] = free " comm nn models parallel optim checkpoint train"
  allowed["apps"] = free
  allowed["engine"] = free " comm nn models parallel optim checkpoint train generate"
  torch_free = " " free " apps "
}

FNR == 1 {
  part_count = split(FILENAME, parts, "/")
  folder = parts[1] == "tessera" ? parts[2] : FILENAME ~ /^apps\/tessera_engine[.\/]/ ? "engine" : "apps"
  if (!(folder in allowed)) complain("is in a folder that has no floor")
}

/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
  header = $0
  sub(/^[^<"]*[<"]/, "", header)
  sub(/[>"].*/, "", header)
  quoted = $0 ~ /include[ \t]*"/
  split(header, path, "/")

  if (path[1] == "tessera") {
    if (path[2] != folder && index(" " allowed[folder] " ", " " path[2] " ") == 0)
      complain("includes " header ": " folder " may include " (allowed[folder] == "" ? "nothing else" : allowed[folder]))
  } else if (path[1] ~ /^(ATen|torch|c10|caffe2)$/) {
    if (index(torch_free, " " folder " "))
      complain("includes " header ": " folder " is torch-free")
    else if (header ~ /^torch\/csrc\/distributed\// && folder != "comm")
      complain("includes " header ": only comm may include c10d")
  } else if (quoted && folder != "apps" && folder != "engine") {
    complain("includes \"" header "\": the include root is the root of the repository")
  }
}

function complain(what) {
  print FILENAME ":" FNR ": " what
  wrong = 1
}

END { exit wrong }
' || { echo "floors: wrong includes, see above" >&2; exit 1; }
echo "floors: ok"
