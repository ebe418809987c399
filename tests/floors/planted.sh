# Sourced by the tests of the checks of this folder: plants one line at a time into an empty tree and asks the
# check that is tested.
#
#   check=check_x.sh
#   plant() { ...; }         plant FILE TEXT: writes below $tree; the folder of FILE is there
#   . planted.sh
#   refused FILE TEXT        the check must fail on it
#   accepted FILE TEXT       the check must pass
#   finish "x test"

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tree="$(mktemp -d)"
trap 'rm -rf "$tree"' EXIT
failures=0

# What the check says of a tree with that one line.
verdict() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/$(dirname "$1")"
  plant "$@"
  "$here/$check" "$tree" > "$tree/report" 2>&1
}

refused() { if verdict "$@"; then echo "not caught in $1: $2"; failures=$((failures + 1)); fi; }
accepted() { if ! verdict "$@"; then echo "wrongly caught in $1: $2"; failures=$((failures + 1)); fi; }
finish() { ((failures == 0)) && echo "$1: ok"; }
