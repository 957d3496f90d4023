#!/usr/bin/env bash
# A container engine that speaks the Docker API, for a Debian machine that has none and reaches no image registry.
#   engine.sh start DIR [PID]  prints DOCKER_HOST=...; the engine ends with process PID, or by stop
#   engine.sh stop DIR
#   engine.sh install DIR      installs and configures it, for `podman --root DIR/storage --runroot DIR/run`, with the
#                              variable CONTAINERS_CONF=DIR/containers.conf
# It is podman with runc, from Debian's packages, with everything in DIR. Its images apache/kafka and cassandra are
# stand-ins, built here: the real servers from their published jars, on Debian with Java 17. Root only.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
usage() { echo "usage: engine.sh start DIR [PID] | engine.sh stop DIR | engine.sh install DIR" >&2; exit 2; }
[ $# -ge 2 ] || usage
mkdir -p "$2"
dir="$(cd "$2" && pwd)"
# crun refuses a mixed tree of cgroups, and the limit of open files may not be raised everywhere: so runc, and a low one.
export CONTAINERS_CONF="$dir/containers.conf"
pod() { podman --root "$dir/storage" --runroot "$dir/run" "$@"; }

installed() {
  local name
  for name in podman runc debootstrap java mvn /usr/lib/podman/netavark; do
    command -v "$name" >/dev/null || return 1
  done
}

install_all() {
  ! installed || return 0
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    podman runc netavark aardvark-dns iptables nftables debootstrap openjdk-17-jre-headless maven
}

configure() {
  cat >"$CONTAINERS_CONF" <<C
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=10000:10000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
C
}

# image NAME TAG PORT: the stand-in of a server, on top of localhost/jre:17. Layers that are there are taken as they are.
image() {
  local jars version context
  jars="$("$here/jars.sh" "$1")"
  version="${jars##*-}"
  context="$(mktemp -d "$dir/context.XXXXXX")"
  cp -r "$jars" "$context/lib"
  cp "$here/image-$1.sh" "$here/cassandra.sh" "$here/cassandra.options" "$context"
  cat >"$context/Dockerfile" <<D
FROM localhost/jre:17
COPY lib /srv/lib
COPY image-$1.sh cassandra.sh cassandra.options /srv/
EXPOSE $3
ENTRYPOINT ["bash", "/srv/image-$1.sh"]
D
  pod build --quiet --tag "$2:$version" "$context"
  rm -rf "$context"
}

images() {
  if ! pod image exists localhost/jre:17; then
    local root
    root="$(mktemp -d "$dir/root.XXXXXX")"
    debootstrap --variant=minbase --include=openjdk-17-jre-headless bookworm "$root/fs"
    rm -rf "$root"/fs/var/cache/apt/archives/*.deb
    tar --directory "$root/fs" --create . | pod import - localhost/jre:17
    rm -rf "$root"
  fi
  image kafka docker.io/apache/kafka 9092
  image cassandra docker.io/library/cassandra 9042
}

stop() {
  [ -f "$dir/pid" ] || return 0
  # The engine is killed first, so that no container starts after the removal.
  kill -9 "$(cat "$dir/pid")" 2>/dev/null || true
  pod rm --all --force --time 0 >/dev/null 2>&1 || true
  rm -rf "$(dirname "$(cat "$dir/socket")")" "$dir/pid" "$dir/socket"
}

start() {
  install_all >&2
  configure
  images >&2
  # What an engine left that was killed.
  stop
  # Not in DIR: the name of a socket is short.
  socket="$(mktemp -d /tmp/tstar-engine.XXXXXX)/sock"
  echo "$socket" >"$dir/socket"
  podman --root "$dir/storage" --runroot "$dir/run" system service --time=0 "unix://$socket" \
    </dev/null >"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for _ in $(seq 600); do [ ! -S "$socket" ] || break; sleep 0.1; done
  [ -S "$socket" ] || { echo "engine.sh: no engine; see $dir/log" >&2; exit 1; }
  if [ -n "${1:-}" ]; then
    # That one, and not one that was started since.
    (
      tail --pid="$1" -f /dev/null
      [ "$(cat "$dir/socket")" != "$socket" ] || stop
    ) </dev/null >/dev/null 2>&1 &
  fi
  echo "DOCKER_HOST=unix://$socket"
}

case "$1" in
  start) start "${3:-}" ;;
  stop) stop ;;
  install) install_all >&2; configure ;;
  *) usage ;;
esac
