#!/usr/bin/env bash
# Parallel compile jobs: one per core, but no more than one per 2 GB of memory (a source that sees torch takes 1 GB).
set -euo pipefail
cores=$(nproc)
gigabytes=$(awk '/MemAvailable/ { print int($2 / 2^20) }' /proc/meminfo)
jobs=$((gigabytes / 2 < cores ? gigabytes / 2 : cores))
echo $((jobs > 0 ? jobs : 1))
