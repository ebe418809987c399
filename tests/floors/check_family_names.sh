#!/usr/bin/env bash
# Fails where the program tells families of models apart by their names: that is what the rows of
# tessera/config/families are for. Usage: check_family_names.sh <repository root>
#
# Templates of conversations (tessera/data/chat/chat_template.cpp) have names of their own, some the same.
# Refused outside the rows: a literal that is the name of a family, and a comparison of model_type or of an
# architecture with any literal.
set -euo pipefail
cd "$1"
rows=tessera/config/families
templates=tessera/data/chat/chat_template.cpp

names=$(grep -rhoE '\.(model_type|architecture) = "[^"]+"' "$rows" | grep -oE '"[^"]+"' | sort -u)
[[ -n "$names" ]] || { echo "family names: no rows in $rows" >&2; exit 1; }
literals=$(paste -sd'|' <<< "$names")
compared='(model_type|architectures?)(\(\))?[ ]*(==|!=|\.starts_with\(|\.ends_with\(|\.find\(|\.contains\()[ ]*"[^"]'

found=$(find $(ls -d tessera apps 2>/dev/null) \( -path "$rows" -o -path "$templates" \) -prune -o \( -name '*.h' -o -name '*.cpp' \) -print0 |
  xargs -0 --no-run-if-empty grep -nHE "$literals|$compared" || true)
if [[ -n "$found" ]]; then
  echo "$found"
  echo "family names: told apart by name, see above; make it a fact of the row ($rows)" >&2
  exit 1
fi
echo "family names: ok"
