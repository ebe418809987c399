#!/usr/bin/env bash
# Format, floors and file lengths, on request clang-tidy, then the tests.
#
#   tools/check.sh          everything but clang-tidy
#   tools/check.sh --cheap  only what needs no build
#   tools/check.sh --tidy   also clang-tidy: the torch-free folders and files changed since HEAD
set -euo pipefail
cd "$(dirname "$0")/.."

# Formatters differ between major versions; this one made the tree (Debian 12).
readonly clang_format_major=14

formatter=
for candidate in clang-format-$clang_format_major clang-format; do
  if [[ "$($candidate --version 2>/dev/null)" == *"version $clang_format_major."* ]]; then
    formatter=$candidate
    break
  fi
done
if [[ -n "$formatter" ]]; then
  tools/sources.sh | xargs "$formatter" --dry-run -Werror
  echo "check: format ok"
else
  echo "check: format not checked, no clang-format $clang_format_major here"
fi

tests/floors/check_floors.sh .
tests/floors/check_family_names.sh .
tests/floors/check_lengths.sh .
tests/floors/check_axis_names.sh .
tests/floors/check_optimizer_names.sh .
[[ "${1:-}" == --cheap ]] && exit 0

make --no-print-directory all
if [[ "${1:-}" == --tidy ]]; then
  {
    find tessera/{base,config,schedule,data,layout,rules,planner,launcher} -name '*.cpp' 2>/dev/null || true
    git diff --name-only --diff-filter=d HEAD -- '*.cpp'
  } | sort -u | xargs --no-run-if-empty clang-tidy -p build/release --quiet
  echo "check: clang-tidy ok"
fi
make --no-print-directory test
