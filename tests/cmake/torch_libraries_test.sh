#!/usr/bin/env bash
# A libtorch that lacks a library is refused when the build is configured, by the name of that library.
# torch_libraries_test.sh <repository>
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/torch/lib"

echo 'void gone() {}' | g++ -x c++ -shared -fPIC - -o "$folder/libgone.so"
echo 'void gone(); void use() { gone(); }' |
  g++ -x c++ -shared -fPIC - -o "$folder/torch/lib/libtorch_cpu.so" -L"$folder" -lgone
rm "$folder/libgone.so"

if cmake -S "$1" -B "$folder/build" -G Ninja -D TESSERA_TORCH_DIR="$folder/torch" >"$folder/log" 2>&1; then
  echo "configured with a libtorch that cannot load"
  exit 1
fi
grep -q 'needs libraries that are not here: libgone.so' <(tr -s ' \n' ' ' <"$folder/log") || { cat "$folder/log"; exit 1; }
echo "torch_libraries: ok"
