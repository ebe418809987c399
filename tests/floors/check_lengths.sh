#!/usr/bin/env bash
# Fails on a file of ours above 600 lines; names those above 400. Usage: check_lengths.sh <repository root>
set -euo pipefail
cd "$1"

find $(ls -d tessera apps tests benchmarks tools cmake 2>/dev/null) \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) -print0 |
  xargs -0 awk '
    { lines[FILENAME] = FNR }
    END {
      for (file in lines) {
        if (lines[file] > 600) { print file ": " lines[file] " lines, more than 600"; wrong = 1 }
        else if (lines[file] > 400) print file ": " lines[file] " lines (note)"
      }
      exit wrong
    }'
echo "lengths: ok"
