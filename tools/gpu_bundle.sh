#!/bin/bash
# Collects what tools/gpu_check.sh runs, for a machine that has a CUDA driver and
# nothing else. See tools/gpu_bundle.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

usage() {
  cat <<'END'
usage: tools/gpu_bundle.sh --into FOLDER [--deepspeed PYTHON]

Builds castor, the GPU tests and the GPU benchmarks, and puts them into FOLDER
with the shared libraries that a plain Ubuntu or Debian does not have, found by
the programs beside themselves, with a configuration, a text and
gpu_check.sh, and packs it all as FOLDER.tar.xz, which is held under 56 MiB. With
CASTOR_CUDA_ARCHS=90 in the environment kernels are compiled for Hopper alone.
cuBLASLt and NCCL are larger than that: there, Python's nvidia-* packages
(PyTorch's) or the toolkit serve, or copies in FOLDER/lib.

--deepspeed PYTHON  also wheels of DeepSpeed, a peer of gpu_training.py, and of what
                    it needs besides PyTorch and transformers, for a Python of that
                    version (3.12, say) on the machine with the GPU

CASTOR_WERROR=1 builds as continuous integration does, and CASTOR_XZ_PRESET=0 packs
in a fourth of the time.

Then, on the machine with the GPU:
  tar xf FOLDER.tar.xz && FOLDER/gpu_check.sh --bin FOLDER
END
}

into=""
deepspeed="" # Python's version
while [[ $# -gt 0 ]]; do
  case "$1" in
    --into)
      [[ $# -ge 2 ]] || { echo "gpu_bundle: --into wants a folder" >&2; exit 2; }
      into="$2"
      shift 2
      ;;
    --deepspeed)
      [[ "${2:-}" =~ ^3\.[0-9]+$ ]] || {
        echo "gpu_bundle: --deepspeed wants a version of Python, as 3.12" >&2
        exit 2
      }
      deepspeed="$2"
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "gpu_bundle: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
done
[[ -n "${into}" ]] || { usage >&2; exit 2; }

# make_deepspeed_wheels FOLDER
make_deepspeed_wheels() {
  local pip=(pip3 --disable-pip-version-check --quiet)
  # Its operators are compiled where they are used, by the PyTorch that is there.
  DS_BUILD_OPS=0 "${pip[@]}" wheel --no-deps --wheel-dir "$1" deepspeed==0.19.8
  "${pip[@]}" download --dest "$1" --only-binary=:all: --implementation cp \
    --python-version "${deepspeed}" --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    einops hjson msgpack ninja psutil py-cpuinfo pydantic
}

# The programs that call cuBLASLt and NCCL are compiled with their headers.
tools/setup.sh --cuda
source tools/bazel.sh
source tools/portable.sh
# Whatever is tagged "gpu".
mapfile -t targets < <(castor_bazel query --noshow_progress \
  'attr(tags, "\bgpu\b", kind("cc_(test|binary) rule", //...))' 2>/dev/null)
[[ ${#targets[@]} -gt 0 ]] || {
  echo "gpu_bundle: no target is tagged gpu" >&2
  exit 2
}
targets=(//:castor "${targets[@]}" //client/interface:libcastor_client.so)
# Objects that continuous integration has compiled serve where the arguments are its
# own.
arguments=(-c opt)
[[ "${CASTOR_WERROR:-}" != 1 ]] || arguments+=(--config=werror)
castor_bazel build "${arguments[@]}" --noshow_progress "${targets[@]}"
bazel_bin="$(castor_bazel info "${arguments[@]}" bazel-bin 2>/dev/null)"

rm -rf "${into}/lib"
mkdir -p "${into}/lib"
programs=()
for target in "${targets[@]}"; do
  path="${target#//}"
  path="${path/://}"
  program="${bazel_bin}/${path#/}"
  [[ -x "${program}" ]] || {
    echo "gpu_bundle: ${target} was not built: is nvcc there?" >&2
    exit 2
  }
  install -m 755 "${program}" "${into}/$(basename "${program}")"
  strip --strip-debug "${into}/$(basename "${program}")"
  programs+=("${into}/$(basename "${program}")")
done
loaded_libraries "${programs[@]}" | while read -r name path; do
  install -m 644 "${path}" "${into}/lib/${name}"
done
find_libraries_in '$ORIGIN' "${into}"/lib/*
find_libraries_in '$ORIGIN/lib' "${programs[@]}"

# The Python package's sources, which are compiled there for the PyTorch that is
# found. Its core is libcastor_client.so.
rm -rf "${into}/torch_package"
mkdir -p "${into}"/torch_package/{python,client/interface}
cp -r python/castor python/shim python/setup.py python/pyproject.toml \
  "${into}/torch_package/python/"
cp client/interface/castor_client.h "${into}/torch_package/client/interface/"
rm -rf "${into}"/torch_package/python/castor/{__pycache__,*.so}

rm -rf "${into}/gpu_check"
cp -r tools/gpu_check "${into}/"
rm -rf "${into}/gpu_check/__pycache__"
install -m 755 tools/gpu_check.sh tools/gpu_torch.py \
  benchmarks/gpu_training.py benchmarks/gpu_kernels_peer.py \
  tools/bench_pytorch.py "${into}/"
rm -rf "${into}/wheels"
if [[ -n "${deepspeed}" ]]; then
  make_deepspeed_wheels "${into}/wheels"
fi
mkdir -p "${into}/models"
cp -r examples/bench/{gpt2_124m,gpt2_1.5b,llama_3_2_1b} \
  tests/fixtures/configs/llama_3_1_8b "${into}/models/"
cat >"${into}/gpu_check.json" <<'JSON'
{
  "model": {"type": "gpt2", "n_layer": 6, "n_head": 6, "n_embd": 384,
            "n_positions": 256, "vocab_size": 256, "resid_pdrop": 0.1,
            "embd_pdrop": 0.1, "attn_pdrop": 0.1},
  "data": {"train": "text.txt", "sequence_length": 256},
  "steps": 20, "seed": 1234, "checkpoint": false,
  "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
  "gradient_clipping": 1.0,
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.1}},
  "bf16": {"enabled": true},
  "device": {"type": "cuda"},
  "memory": {"placement_policy": "auto"}
}
JSON
# Text enough for 20 steps.
cat README.md docs/*.md >"${into}/text.txt"

# The budget that gpu_check.sh tries must be one that the run fits in: that much
# needs no GPU.
"${into}/castor" plan "${into}/gpu_check.json" \
  --set memory.device_memory=128MiB >/dev/null

archive="$(readlink -f "${into}").tar.xz"
# The kernels are the same in all programs; the dictionary is long enough to see
# it.
XZ_OPT="--lzma2=preset=${CASTOR_XZ_PRESET:-6},dict=256MiB" \
  tar cJf "${archive}" -C "$(dirname "${archive}")" "$(basename "${into}")"
bytes="$(stat -c %s "${archive}")"
echo "gpu_bundle: ${#programs[@]} programs, $((bytes >> 20)) MiB in ${archive}," \
  "made in ${SECONDS} s"
if [[ "${bytes}" -ge $((56 << 20)) ]]; then
  echo "gpu_bundle: that is not under 56 MiB; the largest:" >&2
  du -ab "${into}" | sort -rn | sed -n 2,8p >&2
  exit 1
fi
