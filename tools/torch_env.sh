#!/bin/bash
# Makes .venv, a virtual environment with PyTorch, transformers and the package
# of python/, or brings it up to date. See tools/torch_env.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/torch_env.sh

Makes the virtual environment .venv with PyTorch, transformers and Castor's
Python package, which it builds. CASTOR_TORCH says which PyTorch, as pip has it;
else it is that of python/requirements.txt. CASTOR_WERROR=1 builds as continuous
integration does. Does nothing where all of it is there and python/ is as it was,
but for its tests.
END
}

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  usage
  exit 0
elif [[ $# -gt 0 ]]; then
  echo "torch_env: unknown argument '$1'; see tools/torch_env.sh --help" >&2
  exit 2
fi
mapfile -t packages < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' \
  python/requirements.txt)
if [[ -n "${CASTOR_TORCH:-}" ]]; then
  packages=("${packages[@]/#torch==*/${CASTOR_TORCH}}")
fi

source tools/bazel.sh
mkdir -p out
# A cache of objects is told apart by its arguments: those of test.sh are kept.
arguments=(-c opt)
[[ "${CASTOR_WERROR:-}" != 1 ]] || arguments+=(--config=werror)
if ! castor_bazel build "${arguments[@]}" \
  //client/interface:libcastor_client.so >out/build.log 2>&1; then
  cat out/build.log >&2
  echo "torch_env: the core's build failed; its output is above and in" \
    "out/build.log" >&2
  exit 1
fi
core="$(castor_bazel info "${arguments[@]}" bazel-bin 2>/dev/null)/client/interface/libcastor_client.so"

# What was installed is told by what it was made of.
made_of="$({
  printf '%s\n' "${packages[@]}"
  sha256sum "${core}" | cut -d' ' -f1
  find python -path python/tests -prune -o -type f \( -name '*.py' \
    -o -name '*.cc' -o -name '*.h' -o -name '*.toml' \) -print |
    LC_ALL=C sort | xargs sha256sum
} | sha256sum)"
[[ "$(cat .venv/made_of 2>/dev/null)" != "${made_of}" ]] || exit 0

[[ -x .venv/bin/python ]] || python3 -m venv .venv
rm -f .venv/made_of
quiet=(--quiet --disable-pip-version-check)
echo "torch_env: installing ${packages[*]} and castor into .venv"
.venv/bin/pip install "${quiet[@]}" "${packages[@]}" </dev/null
# The package was named castor once, and an environment of then has it.
.venv/bin/pip uninstall "${quiet[@]}" --yes castor </dev/null 2>/dev/null
CASTOR_CORE_LIBRARY="${core}" .venv/bin/pip install "${quiet[@]}" --no-deps \
  --force-reinstall ./python </dev/null
echo "${made_of}" >.venv/made_of
