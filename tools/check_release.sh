#!/bin/bash
# Tries the repository on a clean Debian. See tools/check_release.sh --help.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source tools/debian.sh

usage() {
  cat <<'END_OF_USAGE'
usage: tools/check_release.sh [OPTION]... RELEASE [-- COMMAND...]

Makes a minimal Debian RELEASE (bookworm, trixie, ...) with debootstrap in a
folder of its own, clones the commit at HEAD into it, and runs there

  as root              each RUN line of the Dockerfile: ./run.sh and
                       ./test.sh --quick
  as a user with sudo  tools/setup.sh --tests, in a second such system, in which
                       nothing is installed

and says of each how long it took and how it ended. The exit status is 0 if all
ended well, 1 if something failed, 2 after a mistake in the arguments, and 3 if
such systems cannot be made here. Wants root, debootstrap and git; mirror, proxy
and certificates are the machine's own. The systems see the network but not the
machine's folders, have mounts and processes of their own, which end with this
script however it ends, and are deleted.

  --quick             as root, README's first command for five steps
                      (./run.sh --set steps=5), compiled without optimisation,
                      and nothing else; as continuous integration does
                      (./test.sh)
  --packages FOLDER   as root, tools/check_packages.sh of what tools/release.sh has
                      made in FOLDER, in a system in which nothing is installed,
                      and nothing else
  --make FOLDER       as root, tools/release.sh into FOLDER, and nothing else but
                      that they are then tried, as by --packages, in another such
                      system. With --quick they are compiled without optimisation,
                      and are trained with for a few steps only.
  --mirror URL        Debian's packages, where apt's configuration knows none
  --keep FOLDER       makes the systems in FOLDER, or takes what an earlier call
                      has left there, and leaves them. In those, the set-up has
                      less to do.
  --disk-cache FOLDER what Bazel has compiled before is taken from FOLDER, and
                      put there
  --downloads FOLDER  the packages that were downloaded before, Debian's and
                      npm's, are taken from FOLDER, and put there; not while
                      another such call uses it
  --cuda              also runs tools/setup.sh --cuda with the machine's CUDA
                      toolkit
  -- COMMAND...       runs COMMAND in root's clone, and nothing else; for
                      looking into a failure, with --keep
END_OF_USAGE
}

die() {
  echo "check_release: $2" >&2
  exit "$1"
}

release=""
mirror=""
keep=""
disk_cache=""
downloads=""
packages=""
make=""
quick=0
cuda=0
command=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --mirror | --keep | --disk-cache | --downloads | --packages | --make)
      [[ $# -ge 2 ]] || die 2 "$1 wants a value; see --help"
      option="${1#--}"
      printf -v "${option//-/_}" '%s' "$2"
      shift
      ;;
    --cuda) cuda=1 ;;
    --quick) quick=1 ;;
    --) shift; command=("$@"); break ;;
    -h | --help) usage; exit 0 ;;
    -*) die 2 "unknown option '$1'; see --help" ;;
    *)
      [[ -z "${release}" ]] || die 2 "one release at a time; see --help"
      release="$1"
      ;;
  esac
  shift
done
[[ "${release}" =~ ^[a-z]+$ ]] || die 2 "which release? See --help"
[[ "$(id -u)" -eq 0 ]] || die 3 "making a system in a folder needs root"
for tool in debootstrap git unshare pivot_root; do
  command -v "${tool}" >/dev/null ||
    die 3 "there is no ${tool}; on Debian: apt-get install debootstrap git"
done
git rev-parse -q --verify HEAD >/dev/null ||
  die 3 "this is no clone of a git repository: there is no commit to try"

# The Dockerfile is what is run here, so it may hold only what is understood.
others="$(grep -vE '^(#.*|FROM debian:[0-9]+|WORKDIR /[a-z]+|COPY \. \.|RUN .*|)$' \
  Dockerfile || true)"
[[ -z "${others}" ]] ||
  die 2 "the Dockerfile has lines that are not checked here: ${others}"
mapfile -t run_lines < <(sed -n 's/^RUN //p' Dockerfile)
[[ ${#run_lines[@]} -gt 0 ]] || die 2 "the Dockerfile has no RUN line"
check_packages=()
if [[ "${quick}" -eq 1 ]]; then
  run_lines=("${run_lines[0]} --set steps=5")
  check_packages=(--quick)
fi
[[ -z "${make}" || -z "${packages}" ]] ||
  die 2 "--make tries what it makes, --packages what was made; take one"
readonly kCommit="$(git rev-parse HEAD)"
readonly kHomeOfRoot=/root  # in the systems that are made
readonly kClone="$(sed -n 's/^WORKDIR //p' Dockerfile)"

[[ -n "${mirror}" ]] || mirror="$(debian_repository Debian)"
[[ -n "${mirror}" ]] ||
  die 2 "apt knows no repository of Debian here; name one with --mirror"
readonly kSecurity="$(debian_repository Debian-Security)"

if [[ -n "${keep}" ]]; then
  mkdir -p "${keep}"
  work="$(readlink -f "${keep}")"
else
  work="$(mktemp -d "${TMPDIR:-/var/tmp}/castor-release.XXXXXX")"
fi
if [[ -n "${disk_cache}" ]]; then
  mkdir -p "${disk_cache}"
  disk_cache="$(readlink -f "${disk_cache}")"
fi

# What runs in the background can be ended at once; a shell that waits for a
# program in the foreground heeds no signal. With the first process of a process
# namespace all others end, and with the last the mounts.
child=""
await() {
  local status=0
  child="$!"
  wait "${child}" || status=$?
  child=""
  return "${status}"
}
clean_up() {
  [[ -z "${child}" ]] || kill -KILL "${child}" 2>/dev/null || true
  wait 2>/dev/null
  # No mount is seen from here, but a mistake must not reach another's files.
  [[ -n "${keep}" ]] || rm -rf --one-file-system "${work}"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
alone=(unshare --mount --propagation private --pid --fork
  --kill-child=KILL --mount-proc)
"${alone[@]}" mount -t tmpfs castor "${work}" ||
  die 3 "this machine, perhaps a container, allows no mounts of one's own"

# Folders of the machine that the systems see, a line each: the folder, where,
# and how (mount's -o).
folders=()
if [[ -n "${disk_cache}" ]]; then
  folders+=("${disk_cache}" /var/cache/castor-bazel rw)
fi
debootstrap_cache=()
if [[ -n "${downloads}" ]]; then
  mkdir -p "${downloads}"/{debian,npm}
  downloads="$(readlink -f "${downloads}")"
  exec {lock}>"${downloads}/lock"
  if flock -n "${lock}"; then
    folders+=("${downloads}/debian" /var/cache/apt/archives rw
      "${downloads}/npm" "${kHomeOfRoot}/.npm" rw)
    debootstrap_cache=("--cache-dir=${downloads}/debian")
  else
    echo "check_release: another call uses ${downloads}; doing without"
    downloads=""
  fi
fi

# Proxies and certificates, for those who learn of them from the environment.
passed_on='^((https?|ftp|all|no)_proxy|npm_config_registry|PIP_INDEX_URL)='
mapfile -t environment < <(env | grep -iE "${passed_on}")
environment+=(HOME=/root
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)

# in_system SYSTEM COMMAND...: as root, in its folder "/", with mounts and
# processes of its own. By pivot_root, since in a chroot nobody can make user
# namespaces, which Bazel's and a browser's sandboxes are made of.
in_system() {
  "${alone[@]}" bash -euc '
    system="$1" folders="$2"
    shift 2
    mount --bind "${system}" "${system}"
    mount -t proc proc "${system}/proc"
    mount --rbind /sys "${system}/sys"
    mount -t tmpfs -o mode=755 dev "${system}/dev"
    cd "${system}/dev"
    for node in null:3 zero:5 full:7 random:8 urandom:9; do
      mknod -m 666 "${node%:*}" c 1 "${node#*:}"
    done
    mknod -m 666 tty c 5 0
    ln -s /proc/self/fd fd
    ln -s fd/0 stdin
    ln -s fd/1 stdout
    ln -s fd/2 stderr
    ln -s pts/ptmx ptmx
    mkdir pts shm
    mount -t devpts -o newinstance,ptmxmode=0666 devpts pts
    mount -t tmpfs -o mode=1777 shm shm
    for ((; folders > 0; --folders)); do
      mkdir -p "${system}$2"
      mount --bind -o "$3" "$1" "${system}$2"
      shift 3
    done
    cd "${system}"
    pivot_root . .
    umount -l .
    cd /
    exec env -i "$@"' - "${work}/$1" $((${#folders[@]} / 3)) "${folders[@]}" \
    "${environment[@]}" "${@:2}" </dev/null &
  await
}

# What a machine's owner has set up before the first command: where packages
# come from, and whom to trust.
set_up_system() {
  local system="${work}/$1" bundle=/etc/ssl/certs/ca-certificates.crt
  {
    echo "deb ${mirror} ${release} main"
    echo "deb ${mirror} ${release}-updates main"
    [[ -z "${kSecurity}" ]] || echo "deb ${kSecurity} ${release}-security main"
  } >"${system}/etc/apt/sources.list"
  debian_apt_options >"${system}/etc/apt/apt.conf.d/90machine"
  # Nothing there is to outlast a power cut: packages are unpacked faster.
  echo force-unsafe-io >"${system}/etc/dpkg/dpkg.cfg.d/unsafe-io"
  cp --remove-destination /etc/resolv.conf /etc/hosts "${system}/etc/"
  if [[ -e "${bundle}" ]]; then
    cp "${bundle}" "${system}/usr/local/share/ca-certificates/machine.crt"
    in_system "$1" update-ca-certificates >/dev/null 2>&1
  fi
  {
    [[ -z "${disk_cache}" ]] ||
      echo "build --disk_cache=/var/cache/castor-bazel"
    # Whether it compiles shows as well, in half of the time. Vector instructions
    # want some optimisation.
    # Without a server, which would be a session of its own, it all has the share of
    # the processors that this script was given.
    [[ "${quick}" -eq 0 ]] || printf '%s\n' \
      "startup --batch" \
      "build --copt=-O0 --copt=-U_FORTIFY_SOURCE" \
      "build --per_file_copt=kernels/.*,third_party/precompiled/kernel.*@-O1"
  } >"${system}/root/.bazelrc"
}

# Makes a system, or takes the one that is there. Under another name first: half
# of one must not be taken for a whole one.
make_system() {
  if [[ -d "${work}/$1" ]]; then
    echo "check_release: taking the ${release} in ${work}/$1"
    return 0
  fi
  rm -rf --one-file-system "${work:?}/$1.part"
  if [[ -d "${work}/base" ]]; then
    cp -a "${work}/base" "${work}/$1.part"
  else
    echo "check_release: making a ${release} in ${work}/$1"
    "${alone[@]}" debootstrap "${debootstrap_cache[@]}" --variant=minbase \
      --include=ca-certificates \
      "${release}" "${work}/$1.part" "${mirror}" >"${work}/debootstrap.log" \
      2>&1 </dev/null &
    await || die 1 "debootstrap failed: $(tail -n 3 "${work}/debootstrap.log")"
    rm -rf --one-file-system "${work:?}/$1.part"/dev/*
  fi
  mv "${work}/$1.part" "${work}/$1"
}

failed=0
results=()
# tried NAME COMMAND...: runs it, says how long it took, and remembers that.
tried() {
  local name="$1" started="${SECONDS}" status=0 result
  shift
  echo "check_release: ${release}: ${name}"
  "$@" || status=$?
  printf -v result '%s: %s: %d min %02d s, exit status %d' "${release}" \
    "${name}" $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60)) \
    "${status}"
  echo "check_release: ${result}"
  results+=("${result}")
  [[ "${status}" -eq 0 ]] || failed=1
}

clone_into() {
  rm -rf --one-file-system "$1"
  mkdir -p "$(dirname "$1")"
  git clone -q --no-local . "$1"
  git -C "$1" checkout -q --detach "${kCommit}"
}

if [[ -n "${packages}" ]]; then
  [[ -e "${packages}/SHA256SUMS" ]] ||
    die 2 "${packages} is no folder that tools/release.sh has made"
  folders+=("$(readlink -f "${packages}")" /packages ro)
fi
if [[ "${quick}" -eq 0 && -z "${packages}" || -n "${make}" ]]; then
  make_system base
  set_up_system base
fi
make_system root
set_up_system root
clone_into "${work}/root${kClone}"
if [[ ${#command[@]} -gt 0 ]]; then
  in_system root sh -c "cd ${kClone} && exec \"\$@\"" - "${command[@]}"
  exit 0
fi

git diff --quiet HEAD ||
  echo "check_release: what is not committed is not tried"
echo "check_release: $(git log -1 --format='%h %s' "${kCommit}") on" \
  "${release}, $(nproc) processors"
[[ -z "${disk_cache}" ]] || echo "check_release: with Bazel's disk cache in" \
  "${disk_cache}, of $(du -sh "${disk_cache}" | cut -f 1)"
if [[ -n "${make}" ]]; then
  mkdir -p "${make}"
  folders+=("$(readlink -f "${make}")" /packages rw)
  make_system maker
  set_up_system maker
  clone_into "${work}/maker${kClone}"
  tried "root: tools/release.sh" in_system maker sh -ec "cd ${kClone}
    tools/setup.sh --release
    tools/release.sh --into /packages"
  packages="${make}"
fi
if [[ -n "${packages}" && "${failed}" -eq 0 ]]; then
  tried "root: tools/check_packages.sh" in_system root sh -c \
    "cd ${kClone} && tools/check_packages.sh ${check_packages[*]} /packages"
fi
[[ -z "${packages}" ]] || run_lines=()
for line in "${run_lines[@]}"; do
  tried "root: ${line}" in_system root sh -c "cd ${kClone} && ${line}"
done
[[ -n "${packages}" ]] ||
  echo "check_release: the compiler's warnings in out/build.log:" \
    "$(grep " warning: " "${work}/root${kClone}/out/build.log" |
      grep -vc "Server VM warning: " || true)"  # Java says that of Bazel's options

finish() {
  echo "check_release: what was tried at ${kCommit:0:10}:"
  printf '  %s\n' "${results[@]}"
  exit "${failed}"
}
[[ -z "${packages}" ]] || finish
if [[ "${quick}" -eq 1 ]]; then
  # What apt would not download any more need not be kept.
  [[ -z "${downloads}" ]] || in_system root apt-get -q autoclean >/dev/null || true
  finish
fi

# A user, with sudo without a password: there is nobody to type one.
make_system user
set_up_system user
# What root has downloaded need not be so again.
cp -n "${work}/root/var/cache/apt/archives"/*.deb \
  "${work}/user/var/cache/apt/archives/" 2>/dev/null || true
clone_into "${work}/user${kClone}"
prepare_user='
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -qy install --no-install-recommends sudo
  id castor >/dev/null 2>&1 || useradd --create-home castor
  echo "castor ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/castor
  chown -R castor: "$1"'
if in_system user sh -ec "${prepare_user}" - "${kClone}" \
  >"${work}/user.log" 2>&1; then
  as_user=(runuser castor -c)
  tried "user with sudo: tools/setup.sh --tests" \
    in_system user "${as_user[@]}" "cd ${kClone} && tools/setup.sh --tests"
  # Then nothing is left to do, and nothing there belongs to root.
  tried "user with sudo: again, with nothing to install" \
    in_system user "${as_user[@]}" "cd ${kClone} &&
      said=\"\$(tools/setup.sh --tests)\" && test -z \"\${said}\" &&
      test -z \"\$(find . -not -user castor)\""
else
  tail -n 3 "${work}/user.log" >&2
  failed=1
  results+=("${release}: user with sudo: could not be made")
fi

if [[ "${cuda}" -eq 1 ]]; then
  folders+=("$(readlink -f "${CUDA_HOME:-/usr/local/cuda}")" /usr/local/cuda ro)
  tried "root: tools/setup.sh --cuda" \
    in_system root sh -c "cd ${kClone} && tools/setup.sh --cuda"
fi

finish
