# Sourced by each recipe's run.sh with its arguments. For --help it prints the
# comment with which that script begins, and ends; else it installs what is missing
# and makes .venv (tools/torch_env.sh). Afterwards the repository is the folder.
for argument in "$@"; do
  if [[ "${argument}" == -h || "${argument}" == --help ]]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$(readlink -f "$0")"
    exit 0
  fi
done
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
tools/setup.sh --torch
tools/torch_env.sh
