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

# step NAME COMMAND…: a line with the seconds it took; the output goes to a log, whose end is shown on failure. While it
# runs, the last line of the log shows how far it is: in place on a terminal, elsewhere twice a minute.
step() {
  local name=$1 log="$logs/${1// /-}.log" began=$SECONDS
  shift
  printf 'once: %s …\n' "$name"
  "$@" >"$log" 2>&1 </dev/null &
  local pid=$! said=$SECONDS line status=0
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM  # a background process ignores Ctrl-C
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.3
    if [[ -t 1 ]]; then
      line=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-100)
      printf '\r\033[K      %s' "$line"
    elif ((SECONDS - said >= 30)); then
      said=$SECONDS
      printf '      %d s: %s\n' $((SECONDS - began)) "$(tail -n 1 "$log" | cut -c 1-100)"
    fi
  done
  [[ -t 1 ]] && printf '\r\033[K'
  wait "$pid" || status=$?
  trap - INT TERM
  if ((status == 0)); then
    printf 'once: %s: %d s\n' "$name" $((SECONDS - began))
  else
    printf 'once: %s failed after %d s; the end of %s:\n' "$name" $((SECONDS - began)) "$log"
    tail -n 40 "$log"
  fi
  return "$status"
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

# build PRESET [TARGET]. A folder that was configured for other tools (an archiver of another LLVM) is made anew: CMake would
# keep what it found then.
build() {
  local cache=build/$1/CMakeCache.txt
  if [[ -f $cache ]] && ! grep -q '^CMAKE_AR:.*=/usr/bin/llvm-ar-19$' "$cache"; then
    say "build/$1 was made with other tools: starting anew"
    rm -rf "build/${1:?}"
  fi
  step "configure $1" cmake --preset "$1"
  step "build $1" cmake --build --preset "$1" -j "${ONCE_JOBS:-2}" ${2:+--target "$2"}
}
