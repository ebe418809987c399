#!/usr/bin/env bash
# Fails where the program tells optimizers apart by their names: that is what the rows of the table are for
# (tessera/config/optimizer_kind.cpp, tessera/optim/optimizers.cpp). Usage: check_optimizer_names.sh <repository root>
#
# Refused outside the rows: a literal that is the name of an optimizer, and a comparison of optimizer.type with any
# literal. One line may have a name: the default of optimizer.type in tessera/config/optimizer_config.h.
set -euo pipefail
cd "$1"
rows=tessera/config/optimizer_kind.cpp
makers=tessera/optim/optimizers.cpp
default='^tessera/config/optimizer_config\.h:[0-9]+:  std::string type = "[A-Za-z]+"; '

names=$(grep -ohE '\.name = "[^"]+"' "$rows" | grep -oE '"[^"]+"' | sort -u)
[[ -n "$names" ]] || { echo "optimizer names: no rows in $rows" >&2; exit 1; }
literals=$(paste -sd'|' <<< "$names")
compared='optimizer(\(\))?\.(type|kind->name)[ ]*(==|!=|\.starts_with\(|\.find\(|\.contains\()[ ]*"[^"]'

found=$(grep -rnE --include='*.h' --include='*.cpp' "$literals|$compared" $(ls -d tessera apps 2>/dev/null) |
  grep -vE "^($rows|$makers):|$default" || true)
if [[ -n "$found" ]]; then
  echo "$found"
  echo "optimizer names: told apart by name, see above; make it a fact of the row ($rows)" >&2
  exit 1
fi
echo "optimizer names: ok"
