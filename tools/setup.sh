#!/usr/bin/env bash
# Installs what building and testing need: Debian packages, and libtorch out of the torch wheel.
#
#   tools/setup.sh                the packages of a build, and libtorch into .deps/
#   tools/setup.sh --checks       also what tools/check.sh uses
#   tools/setup.sh --fuzz         also clang with libFuzzer
#   tools/setup.sh --arrow        also the C++ libraries of Apache Arrow (pyarrow wheel), for parquet and arrow files
#   tools/setup.sh --benchmarks   also Google Benchmark, for the programs in benchmarks/
#
# TESSERA_TORCH_DIR=<site-packages/torch> uses a torch that is installed already. A second run checks and ends
# within a second. Works as root or with sudo; packages are named before they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly torch_version=2.13.0
readonly deps="$PWD/.deps"

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

# --- Debian packages ----------------------------------------------------------------------------------------------

packages=(
  g++ cmake ninja-build ccache mold git make
  libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
  libsentencepiece-dev sentencepiece
  libssl-dev zlib1g-dev libzstd-dev liblzma-dev libbz2-dev
  libpcre2-dev libutf8proc-dev
  libgtest-dev libgmock-dev
)
[[ "${1:-}" == --checks ]] && packages+=(clang-format)
[[ "${1:-}" == --fuzz ]] && packages+=(clang-19 libclang-rt-19-dev)
[[ "${1:-}" == --benchmarks ]] && packages+=(libbenchmark-dev)
[[ -n "${TESSERA_TORCH_DIR:-}" ]] || python3 -m pip --version >/dev/null 2>&1 || packages+=(python3-pip)

missing=()
for package in "${packages[@]}"; do
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] || missing+=("$package")
done
if ((${#missing[@]})); then
  say "installing with apt: ${missing[*]}"
  as_root=()
  if [[ $EUID != 0 ]]; then
    command -v sudo >/dev/null || fail "not root and no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# --- libtorch -----------------------------------------------------------------------------------------------------

readonly wheels="$deps/wheels" pip_log="$deps/pip.log"

# download REQUIREMENT... : wheels for this machine's Python, else for some Python. Only lib/ and include/ of a
# wheel are used, and they are the same for every Python version.
download() {
  local pip=(python3 -m pip --quiet --disable-pip-version-check download --only-binary=:all: --dest "$wheels")
  local version
  "${pip[@]}" "$@" 2>"$pip_log" && return
  for version in 3.11 3.12 3.13 3.10 3.14; do
    "${pip[@]}" --python-version "$version" --platform "manylinux_2_28_$(uname -m)" "$@" 2>>"$pip_log" && return
  done
  return 1
}

# unpack ITEM... : those folders and files of every wheel, into .deps/. Left out: the bindings to Python and torch's tests.
unpack() {
  python3 - "$deps" "$wheels" "$@" <<'PYTHON'
import pathlib, re, sys, zipfile
target, wheels, *items = sys.argv[1:]
for wheel in pathlib.Path(wheels).glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            wanted = any(name == item or name.startswith(item + "/") for item in items)
            if wanted and not re.fullmatch(r"torch/lib/lib(torch_python|.*test).*\.so", name):
                archive.extract(name, target)
PYTHON
}

# nvidia_requirements METADATA : what the CUDA build requires of NVIDIA's packages, without environment markers,
# and two header packages (crt, cccl) that the headers of the CUDA runtime include.
nvidia_requirements() {
  sed -nE '/^Requires-Dist: (nvidia|cuda-toolkit)/ {
    s/^Requires-Dist: //; s/;.*//; s/[ ()]//g; s/^cuda-toolkit\[/&crt,cccl,/; p }' "$1"
}

# Ends with the loader's own message when the library or one that it needs is not there.
check_loads() {
  local torch=$1 program
  local libraries=(-ltorch_cpu -lc10)
  [[ -e "$torch/lib/libtorch_cuda.so" ]] && libraries+=(-ltorch_cuda)
  program="$(mktemp)"
  echo 'int main() {}' | g++ -x c++ - -o "$program" -Wl,--no-as-needed,--allow-shlib-undefined \
    -L"$torch/lib" -Wl,-rpath,"$torch/lib" "${libraries[@]}" || fail "cannot link to libtorch in $torch"
  "$program" || fail "libtorch in $torch does not load"
  rm -f "$program"
}

# Apache Arrow, for parquet and arrow files: libraries and headers only.
if [[ "${1:-}" == --arrow && ! -e "$deps/pyarrow/include/arrow/api.h" ]]; then
  mkdir -p "$wheels"
  say "fetching the C++ libraries of pyarrow with pip"
  download --no-deps pyarrow || { cat "$pip_log" >&2; fail "pip has no pyarrow for $(uname -m)"; }
  unpack pyarrow/include $(python3 -m zipfile -l "$wheels"/pyarrow-*.whl | grep -oE '^pyarrow/lib(arrow|parquet|arrow_compute)\.so\.[0-9]+')
  rm -rf "$wheels" "$pip_log"
  say "Apache Arrow is in .deps/pyarrow"
fi

# An installed torch: checked, and what it lacks for compiling against its CUDA build fetched.
if [[ -n "${TESSERA_TORCH_DIR:-}" ]]; then
  torch="$TESSERA_TORCH_DIR"
  [[ -e "$torch/lib/libtorch_cpu.so" ]] || fail "TESSERA_TORCH_DIR=$torch holds no lib/libtorch_cpu.so"
  grep -qsF "\"$torch_version\"" "$torch/include/torch/headeronly/version.h" ||
    say "the torch in TESSERA_TORCH_DIR is not version $torch_version, which is what is built and tested against"
  check_loads "$torch"
  if [[ -e "$torch/lib/libtorch_cuda.so" ]] &&
    ! compgen -G "$torch/../nvidia/*/include/nv" >/dev/null && ! compgen -G "$deps/nvidia/*/include/nv" >/dev/null; then
    mkdir -p "$wheels"
    headers="$(nvidia_requirements "$torch"/../torch-*.dist-info/METADATA | sed -nE 's/^cuda-toolkit.*==/cuda-toolkit[crt,cccl]==/p')"
    say "this is a CUDA build; fetching headers that it lacks: $headers"
    if [[ -n "$headers" ]] && download "$headers"; then
      unpack nvidia
    else
      say "pip does not have them: NCCL will not be compiled in"
    fi
    rm -rf "$wheels"
  fi
  exit 0
fi

stamp="$deps/torch-$torch_version.ready"
[[ -e "$stamp" ]] && exit 0

rm -rf "$deps/torch" "$deps/nvidia" "$wheels"
mkdir -p "$wheels"
say "fetching libtorch $torch_version with pip"
if ! download --no-deps "torch==$torch_version+cpu" && ! download --no-deps "torch==$torch_version"; then
  cat "$pip_log" >&2
  fail "pip has no torch $torch_version for $(uname -m)"
fi
unpack torch/lib torch/include torch/version.py "torch-$torch_version.dist-info"
if [[ -e "$deps/torch/lib/libtorch_cuda.so" ]]; then
  mapfile -t requirements < <(nvidia_requirements "$deps/torch-$torch_version.dist-info/METADATA")
  say "this is the CUDA build; fetching what it requires: ${requirements[*]}"
  download "${requirements[@]}" || { cat "$pip_log" >&2; fail "pip could not fetch them"; }
  unpack nvidia
fi
check_loads "$deps/torch"
rm -rf "$wheels" "$pip_log"
touch "$stamp"
say "libtorch is in .deps/torch"
