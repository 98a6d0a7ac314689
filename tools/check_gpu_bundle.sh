#!/bin/bash
# Makes the bundle for machines with a GPU, and tries it on this one. See
# tools/check_gpu_bundle.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/check_gpu_bundle.sh

Makes what tools/gpu_bundle.sh makes, unpacks the archive, and sees to it that all
programs find their libraries there, that the tests of a GPU begin and say that there
is none (or pass, where there is one), and that gpu_check.sh reports so. Exit status:
0, 1, or 3 where there is no CUDA compiler.
END
}

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  usage
  exit 0
elif [[ $# -gt 0 ]]; then
  echo "check_gpu_bundle: unknown argument '$1'; see --help" >&2
  exit 2
fi

die() {
  echo "check_gpu_bundle: $1" >&2
  exit 1
}

source tools/nvcc.sh
source tools/portable.sh
[[ -n "$(find_nvcc)" ]] || {
  echo "check_gpu_bundle: there is no nvcc on PATH, in CUDA_HOME or in" \
    "/usr/local/cuda, or CASTOR_CUDA is 0"
  exit 3
}
work="$(mktemp -d)"
trap 'rm -rf "${work}"' EXIT
# Time matters here, not each megabyte.
CASTOR_XZ_PRESET=0 tools/gpu_bundle.sh --into "${work}/made/gpu"
tar xJf "${work}/made/gpu.tar.xz" -C "${work}"
rm -rf "${work}/made"

for program in "${work}"/gpu/*; do
  [[ "$(head -c 4 "${program}" 2>/dev/null | tail -c 3)" == ELF ]] || continue
  elsewhere="$(loaded_libraries "${program}" | grep -v " ${work}/gpu/lib/" || true)"
  [[ -z "${elsewhere}" ]] || die "${program##*/} loads what is not in the bundle:
${elsewhere}"
done

status=0
"${work}/gpu/gpu_check.sh" --bin "${work}/gpu" --log "${work}/results" \
  --stage facts,device,operators --within 120 || status=$?
report="${work}/results/report.txt"
grep -qE '^libraries +passed' "${report}" || die "a program finds no library"
grep -qE '^info +passed' "${report}" || die "castor info fails"
! grep "no case is like" "${report}" || die "gpu_check.sh's patterns are stale"
tests=(gpu_device_test operators_gpu_test)
if [[ "${status}" -eq 0 ]]; then
  outcome=passed
else
  grep -qE '^gpu_check +FAILED +no test ran on a GPU' "${report}" ||
    die "gpu_check.sh ended with ${status}, and not for want of a GPU"
  outcome=skipped
fi
for name in "${tests[@]}"; do
  grep -qE "^${name} +${outcome}" "${report}" || die "${name} is not ${outcome}"
done
echo "check_gpu_bundle: ${#tests[@]} programs of tests ${outcome}"
