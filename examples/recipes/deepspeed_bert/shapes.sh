# Sourced by run.sh and native.sh with their arguments. Of --shape small, which is the
# default, or --shape large it sets: shape; memory, the device's; first and second, the
# steps of the first phase and of the second; tokens, what pretrain.py is told of the
# tokenizer; and more, the other arguments.
shape=small memory=96MiB first=20 second=8 tokens=() more=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --shape) shape="${2:-}"; shift ;;
    --shape=*) shape="${1#--shape=}" ;;
    *) more+=("$1") ;;
  esac
  [[ $# -eq 0 ]] || shift
done
case "${shape}" in
  small) ;;
  large) memory=11GB first=2 second=2 tokens=(--tokenizer out/minilm/base) ;;
  *)
    echo "deepspeed_bert: --shape is '${shape}': give small or large" >&2
    exit 2
    ;;
esac
