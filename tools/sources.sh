#!/usr/bin/env bash
# Our C++ sources, one a line.
set -euo pipefail
cd "$(dirname "$0")/.."
find $(ls -d tessera apps tests benchmarks 2>/dev/null) \( -name '*.h' -o -name '*.cpp' \) | sort
