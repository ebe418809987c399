#!/usr/bin/env bash
# Plants wrong includes and wants each of them caught, then right ones and wants none reported.
set -euo pipefail
check=check_floors.sh
# An include, in a tree that has the folder below all others.
plant() {
  mkdir -p "$tree/tessera/base"
  printf '#pragma once\n#include %s\n' "$2" > "$tree/$1"
}
. "$(dirname "$0")/planted.sh"

refused tessera/base/x.h '"tessera/config/config.h"'
refused tessera/config/x.h '"tessera/schedule/pipeline_schedule.h"'
refused tessera/schedule/x.cpp '"tessera/config/config.h"'
refused tessera/data/x.cpp '"tessera/planner/estimate.h"'
refused tessera/storage/x.cpp '<c10/core/ScalarType.h>'
refused tessera/storage/x.cpp '"tessera/rules/checker.h"'
refused tessera/launcher/x.cpp '"tessera/data/loader.h"'
refused tessera/planner/x.cpp '"tessera/launcher/worker_group.h"'
refused tessera/comm/x.cpp '"tessera/nn/layers.h"'
refused tessera/nn/x.cpp '"tessera/comm/process_group.h"'
refused tessera/models/x.cpp '"tessera/comm/process_group.h"'
refused tessera/nn/x.cpp '"tessera/models/decoder.h"'
refused tessera/parallel/x.cpp '"tessera/optim/adamw.h"'
refused tessera/optim/x.cpp '"tessera/train/trainer.h"'
refused tessera/data/x.cpp '<ATen/ATen.h>'
refused tessera/config/x.h '<torch/csrc/autograd/autograd.h>'
refused tessera/base/x.h '<c10/util/Exception.h>'
refused tessera/parallel/x.cpp '<torch/csrc/distributed/c10d/Backend.hpp>'
refused tessera/nn/x.cpp '"layers.h"'
refused tessera/nn/x.cpp '"../comm/process_group.h"'
refused tessera/misc/x.cpp '<vector>'
refused apps/tessera.cpp '"tessera/train/trainer.h"'
refused apps/msrun.cpp '<ATen/ATen.h>'
refused apps/tessera/x.cpp '"tessera/comm/process_group.h"'

accepted tessera/config/x.h '"tessera/base/error.h"'
accepted tessera/launcher/x.cpp '"tessera/config/config.h"'
accepted tessera/planner/x.cpp '"tessera/storage/manifest.h"'
accepted tessera/planner/x.cpp '"tessera/schedule/pipeline_schedule.h"'
accepted tessera/planner/x.cpp '"tessera/data/gpt_dataset.h"'
accepted tessera/comm/x.cpp '<torch/csrc/distributed/c10d/Backend.hpp>'
accepted tessera/nn/x.cpp '<ATen/ATen.h>'
accepted tessera/models/x.cpp '"tessera/nn/layers.h"'
accepted tessera/parallel/x.cpp '"tessera/comm/process_group.h"'
accepted tessera/train/x.cpp '"tessera/parallel/parallelize.h"'
accepted apps/tessera.cpp '"tessera/planner/estimate.h"'
accepted apps/tessera_engine.cpp '"tessera/train/trainer.h"'
accepted apps/tessera_engine/x.cpp '<ATen/ATen.h>'

finish "floors test"
