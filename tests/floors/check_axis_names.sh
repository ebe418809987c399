#!/usr/bin/env bash
# Fails on the name of a mesh axis written as text where no text is read or written (layout/axis.h has
# the enum and its names). Usage: check_axis_names.sh <repository root>
#
# Names that are also everyday words (batch, loss, embedding, world) cannot be told apart and are left out.
set -euo pipefail
cd "$1"

# Where text is the trade: names themselves, keys and messages of files, the plan as JSON.
text_layers='^tessera/(layout/axis\.cpp|config/|rules/|planner/plan_json\.cpp)'

found=$(grep -rnE --include='*.h' --include='*.cpp' \
          '^([^/]|/[^/])*"(pp|dp_replicate|dp_shard|cp|tp|fsdp|ep|efsdp)"' \
          $(ls -d tessera apps 2>/dev/null) | grep -vE "$text_layers" || true)
if [[ -n $found ]]; then
  echo "$found"
  echo "axis names: use Axis of tessera/layout/axis.h, see above" >&2
  exit 1
fi
echo "axis names: ok"
