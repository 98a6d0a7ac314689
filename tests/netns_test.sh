#!/bin/bash
# usage: netns_test.sh CASTOR RANK_SCENARIO
#
# Ranks on several hosts: network namespaces with a name and an address each,
# joined by a bridge, a rank in each; over our own TCP, started by hand and by
# `castor launch` over ssh, and over MPI's. The same bits as one rank; a link
# that is cut is reported; one that is cut for a moment, or slow, only costs
# time. Needs root, iproute2 and an ssh server; says aloud when it cannot run.
set -euo pipefail

if [[ "${1}" != inside ]]; then
  castor="$(realpath "${1}")"
  scenario="$(realpath "${2}")"
  if ! command -v ip >/dev/null || [[ ! -x /usr/sbin/sshd ]] ||
    ! unshare --net true 2>/dev/null ||
    ! unshare --net ip link add bridge0 type bridge 2>/dev/null ||
    ! unshare --uts sh -c 'echo x >/proc/sys/kernel/hostname' 2>/dev/null; then
    echo 'SKIPPED: no network namespaces can be made here' \
      '(needs root, iproute2 and openssh-server)' | tee /dev/stderr
    exit 0
  fi
  # Everything below vanishes with this namespace and the holders' ends.
  exec unshare --net "${BASH_SOURCE[0]}" inside "${castor}" "${scenario}"
fi

readonly kCastor="${2}" kScenario="${3}"
cd "${TEST_TMPDIR:?}"
holders=()
servers=()
ranks=()
trap 'kill "${ranks[@]}" "${holders[@]}" "${servers[@]}" 2>/dev/null' EXIT

fail() {
  echo "FAILED: $*" >&2
  tail -n +1 out.* >&2
  exit 1
}

ip link set lo up
ip link add bridge0 type bridge
ip link set bridge0 up
ip addr add 10.77.0.100/24 dev bridge0
for rank in 0 1 2; do
  unshare --net --uts \
    sh -c "echo node${rank} >/proc/sys/kernel/hostname && exec sleep 600" &
  holders+=("$!")
  until [[ "$(cat "/proc/$!/comm")" == sleep ]]; do
    kill -0 "$!" || fail 'no namespace'
    sleep 0.01
  done
  ip link add "port${rank}" type veth peer name eth0 netns "$!"
  ip link set "port${rank}" master bridge0 up
  nsenter --net --target "$!" ip addr add "10.77.0.$((rank + 1))/24" dev eth0
  nsenter --net --target "$!" ip link set eth0 up
  nsenter --net --target "$!" ip link set lo up
done

cut_link() { ip link set port2 down; }
# Until node2 can speak to the others again (to their ssh servers): attempts
# that were under way as the link came back may fail, and are not tested.
mend_link() {
  local address
  ip link set port2 up
  for address in 10.77.0.1 10.77.0.2; do
    until nsenter --net --target "${holders[2]}" \
      timeout 1 bash -c ": </dev/tcp/${address}/22" 2>/dev/null; do
      kill -0 "${holders[2]}" || fail 'the link does not come back'
      sleep 0.1
    done
  done
}

# What mpirun starts its daemons with, instead of ssh: agent HOST COMMAND...
cat >agent <<END
#!/bin/bash
holders=(${holders[*]})
host="\$1"
shift
exec nsenter --net --uts --target "\${holders[\${host##*.} - 1]}" bash -c "\$*"
END
chmod +x agent

# An ssh server on each host, and a client that knows its way there.
ssh-keygen -q -t ed25519 -N '' -f key
cat >sshd_config <<END
HostKey ${PWD}/key
AuthorizedKeysFile ${PWD}/key.pub
StrictModes no
UsePAM no
PidFile none
END
cat >ssh_config <<END
Host 10.77.0.*
  IdentityFile ${PWD}/key
  UserKnownHostsFile ${PWD}/known
  StrictHostKeyChecking no
  LogLevel ERROR
END
mkdir -p /run/sshd
for holder in "${holders[@]}"; do
  nsenter --net --uts --target "${holder}" /usr/sbin/sshd -D \
    -f "${PWD}/sshd_config" &
  servers+=("$!")
done
printf '10.77.0.%d slots=1\n' 1 2 3 >hosts

# Open MPI 5 asks for a home directory, which a sandbox may not have.
export HOME="${PWD}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# What mpirun starts its daemons with, and over which network: the names of Open
# MPI 4, and those of 5, which has another mpirun.
export OMPI_MCA_plm=rsh OMPI_MCA_plm_rsh_agent="${PWD}/agent"
export OMPI_MCA_oob_tcp_if_include=10.77.0.0/24
export PRTE_MCA_plm_ssh_agent="${PWD}/agent"
export PRTE_MCA_prte_if_include=10.77.0.0/24
# A command as three ranks of MPI, one in each namespace.
start_mpi() {
  rm -f out.*
  timeout -k 5 100 mpirun --host 10.77.0.1,10.77.0.2,10.77.0.3 -np 3 \
    --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    "$@" >out.mpi 2>&1 &
  ranks=("$!")
}

# Starts ranks 0 .. N-1 of a command, one in each namespace.
start() {
  local size="$1" rank
  shift
  ranks=()
  rm -f out.*
  for ((rank = 0; rank < size; rank++)); do
    timeout -k 5 60 nsenter --net --uts --target "${holders[rank]}" \
      env RANK="${rank}" WORLD_SIZE="${size}" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 "$@" >"out.${rank}" 2>&1 &
    ranks+=("$!")
  done
}
# Waits until they have said so. under_way FILE SECONDS_BETWEEN_LOOKS
under_way() {
  until grep -qs 'under way' "$1"; do
    kill -0 "${ranks[@]}" || fail "a rank has ended"
    sleep "$2"
  done
}
# Each must end with this code.
expect() {
  local pid status
  for pid in "${ranks[@]}"; do
    status=0
    wait "${pid}" || status=$?
    [[ "${status}" == "$1" ]] || fail "a rank ended with ${status}, not $1"
  done
}

echo 'The same bits as one rank.'
for _ in {1..200}; do echo 'In the beginning was the word. '; done >text.txt
cat >run.json <<'END'
{"model": {"type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16,
           "n_positions": 16, "vocab_size": 128, "resid_pdrop": 0.1},
 "data": {"train": "text.txt", "sequence_length": 16},
 "steps": 4, "seed": 7, "checkpoint": false, "train_batch_size": 6,
 "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.5,
 "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
 "device": {"type": "host", "threads": 1}}
END
sha() { grep -o '"parameters_sha256": "[0-9a-f]*"' "$1"; }
"${kCastor}" train run.json --summary one.json >out.0 2>&1 || fail 'one rank'
start 3 "${kCastor}" train run.json --summary three.json
expect 0
[[ -n "$(sha one.json)" && "$(sha one.json)" == "$(sha three.json)" ]] ||
  fail "$(sha one.json) became $(sha three.json)"
timeout 100 "${kCastor}" launch --hostfile hosts \
  --rsh "ssh -F ${PWD}/ssh_config" run.json --summary ssh.json >out.ssh 2>&1 ||
  fail 'castor launch over ssh'
start_mpi "${kCastor}" train run.json --summary mpi.json
expect 0
for way in ssh mpi; do
  [[ "$(sha one.json)" == "$(sha "${way}.json")" ]] ||
    fail "$(sha one.json) became $(sha "${way}.json") over ${way}"
  for host in node0 node1 node2; do
    grep -q "\"host\": \"${host}\"" "${way}.json" ||
      fail "over ${way} no rank was on ${host}"
  done
done

echo 'A link that is cut for a moment only costs time.'
start 3 "${kScenario}" well 60000
cut_link
sleep 1
mend_link
expect 0
start_mpi "${kScenario}" well 60000
sleep 0.5
cut_link
sleep 1
mend_link
expect 0

echo 'A slow link only costs time.'
if nsenter --net --target "${holders[1]}" tc qdisc add dev eth0 root tbf \
  rate 50mbit burst 32kbit latency 400ms 2>/dev/null; then
  start 3 "${kScenario}" well 60000
  expect 0
  start_mpi "${kScenario}" well 60000
  expect 0
  nsenter --net --target "${holders[1]}" tc qdisc del dev eth0 root
else
  echo 'SKIPPED: this kernel cannot slow a link' | tee /dev/stderr
fi

echo 'A link that is cut is reported by every rank, with all last collectives.'
# At once, while words on the way have not been acknowledged, and in the midst.
for pause in 0 1; do
  start 3 "${kScenario}" forever 600000
  under_way out.0 "${pause}"
  cut_link
  expect 3
  for rank in 0 1; do
    grep -q 'rank 2 (process [0-9]* on .*) does not answer any more' \
      "out.${rank}" || fail "rank ${rank} names no link"
  done
  grep -q 'rank 0 (process .*) does not answer any more' out.2 ||
    fail 'rank 2 names no link'
  for rank in 0 1 2; do
    grep -q 'last collective of each rank.*"gather of a chunk"' "out.${rank}" ||
      fail "rank ${rank} does not say where all were"
  done
  mend_link
done
start_mpi "${kScenario}" forever 600000
under_way out.mpi 0.05
cut_link
for rank in 0 1; do
  until grep -q "^rank ${rank}: .*rank 2 (process .* on node2) does not answer" \
    out.mpi; do
    kill -0 "${ranks[0]}" || fail "over MPI rank ${rank} names no link"
    sleep 0.1
  done
done
# The ranks have ended; mpirun wants its daemon there to end too.
mend_link
status=0
wait "${ranks[0]}" || status=$?
[[ "${status}" != 0 && "${status}" != 124 ]] || fail "mpirun ended with ${status}"
echo 'PASSED'
