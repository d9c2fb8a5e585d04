# What ./run and ./test share: steps with a line each, and the packages they need. Sourced, with the repository as the
# working directory.
set -euo pipefail

logs=build/logs
mkdir -p "$logs"

say() { printf 'once: %s\n' "$*"; }

fail() {
  printf 'once: %s\n' "$*" >&2
  exit 1
}

# step NAME COMMAND…: one line with the seconds it took; the output goes to a log, whose end is shown on failure.
step() {
  local name=$1 log="$logs/${1// /-}.log" began=$SECONDS
  shift
  printf 'once: %s … ' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%d s\n' $((SECONDS - began))
  else
    local status=$?
    printf 'failed after %d s; the end of %s:\n' $((SECONDS - began)) "$log"
    tail -n 40 "$log"
    return "$status"
  fi
}

# missing GROUP…: those packages of these groups that are not installed, and that no installed one provides: Node's own
# package brings npm with it, Debian's does not.
missing() {
  local group package wanted=()
  while read -r group package _; do
    [[ " $* " == *" $group "* ]] && wanted+=("$package")
  done <scripts/packages
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}, ${Provides}\n' 2>/dev/null |
    sed -n 's/^installed //p' | tr ',' '\n' | awk '{ print $1 }' || true)
  for package in "${wanted[@]}"; do
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# A server among the packages (nginx) must not be started: the tests start their own on free ports.
apt_install() {
  local guard=/usr/sbin/policy-rc.d guarded=0 status=0
  if [[ ! -e $guard ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$guard" >/dev/null
    "${as_root[@]}" chmod 755 "$guard"
    guarded=1
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" || status=$?
  if ((guarded)); then "${as_root[@]}" rm -f "$guard"; fi
  return "$status"
}

install_packages() {
  local packages
  mapfile -t packages < <(missing "$@")
  ((${#packages[@]})) || return 0
  command -v apt-get >/dev/null || fail "needs Debian 12 or these packages: ${packages[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "not root and no sudo; as root run: apt-get install ${packages[*]}"
    as_root=(sudo)
    sudo -v || fail "sudo refused; as root run: apt-get install ${packages[*]}"
  fi
  say "installing ${#packages[@]} packages: ${packages[*]}"
  step "apt update" "${as_root[@]}" apt-get update
  step "apt install" apt_install "${packages[@]}"
}

build() {
  step "configure $1" cmake --preset "$1"
  step "build $1" cmake --build --preset "$1" -j "${ONCE_JOBS:-2}"
}
