# Checks of all but the Debian package and the chart. To be sourced by tests/nightly/packages.

# What the checks need, with the command that shows whether it is there.
install() {
    local missing=() entry
    for entry in lintian:lintian rpmlint:rpmlint rpm:rpm debootstrap:debootstrap strace:strace \
        mandoc:mandoc zsh:zsh fish:fish curl:curl systemd-analyze:systemd; do
        command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
    done
    [ ${#missing[@]} = 0 ] && return
    if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
        apt-get update -q >&2 &&
            apt-get install -q -y --no-install-recommends "${missing[@]}" >&2 && return
    fi
    fail "missing: apt-get install --no-install-recommends ${missing[*]}"
}

# unpack: the archive, whose program the checks run.
unpack() {
    local archive=("$files"/tstar-*-linux-*.tar.gz)
    [ -f "${archive[0]}" ] || fail "no archive in target/release-files; begin with deploy/release"
    rm -rf "$work/archive"
    mkdir -p "$work/archive"
    tar --extract --gzip --file "${archive[0]}" --directory "$work/archive"
    unpacked=$(echo "$work/archive"/tstar-*)
    program=$unpacked/tstar
}

check_archive() {
    local version commit said page shell
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
    commit=$(git rev-parse --short=12 HEAD)
    said=$("$program" --version)
    case $said in
    "tstar $version ($commit)" | "tstar $version ($commit-dirty)") ;;
    *) fail "archive: $said, not tstar $version ($commit)" ;;
    esac
    (cd "$work" && rm -f tstar-demo.db* && "$program" demo </dev/null >demo.txt) ||
        fail "archive: tstar demo failed"
    grep -q '~' "$work/demo.txt" || fail "archive: tstar demo found no trip"
    pass "archive: $said, and its demo"
    # Nothing that a machine without a compiler lacks.
    said=$(ldd "$program" | awk '{ print $1 }' | sed 's|.*/||' | sort | tr '\n' ' ')
    for page in $said; do
        case $page in
        libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-*.so.* | linux-vdso.so.1) ;;
        *) fail "archive: the program needs $page" ;;
        esac
    done
    pass "archive: needs only $said"
    for page in "$unpacked"/man/man1/*.1; do
        said=$(mandoc -T lint -W warning "$page" 2>&1 |
            grep -v 'missing date\|skipping paragraph macro: br ' || true)
        [ -z "$said" ] || fail "archive: $said"
        said=$(LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings --local-file "$page" 2>&1 >/dev/null)
        [ -z "$said" ] || fail "archive: $said"
    done
    pass "archive: $(find "$unpacked/man" -name '*.1' | wc -l) man pages without a warning"
    bash -n "$unpacked/completions/tstar.bash"
    zsh -n "$unpacked/completions/_tstar"
    fish --no-execute "$unpacked/completions/tstar.fish"
    said=$(bash -c ". '$unpacked/completions/tstar.bash'
        COMP_WORDS=(tstar loo) COMP_CWORD=1 COMP_LINE='tstar loo' COMP_POINT=9
        _tstar tstar loo tstar; echo \"\${COMPREPLY[*]}\"")
    [ "$said" = lookup ] || fail "archive: bash completes loo to \`$said\`"
    pass "archive: completions of bash, zsh and fish"
}

check_sums() {
    (cd "$files" && sha256sum --check --quiet --strict SHA256SUMS)
    local listed found
    listed=$(awk '{ print $2 }' "$files/SHA256SUMS" | sort)
    found=$(cd "$files" && find . -type f ! -name SHA256SUMS -printf '%f\n' | sort)
    [ "$listed" = "$found" ] || fail "sums: SHA256SUMS lists $listed, there is $found"
    pass "sums: $(wc -l <"$files/SHA256SUMS") files"
}

# What the program says of itself, the SBOM, and the licences name the same crates.
check_licences() {
    local said
    said=$(python3 "$here/crates.py" "$program" "$unpacked/sbom.cdx.json" \
        "$unpacked/THIRD-PARTY.txt" "$features") || fail "licences: not all crates are listed"
    pass "$said"
}

security() {
    systemd-analyze security --no-pager --offline=true --threshold=20 "$1"
}

# The unit is verified where its program and its manual pages are installed.
check_unit() {
    local said broken
    said=$(security deploy/tstar.service) || fail "unit: $said"
    pass "unit: ${said##*→ }"
    mkdir -p "$work/unit"
    sed 's/^PrivateUsers=yes/PrivateUsers=no/; s/^CapabilityBoundingSet=/#&/; s/^System/#&/' \
        deploy/tstar.service >"$work/unit/tstar.service"
    if security "$work/unit/tstar.service" >/dev/null 2>&1; then
        fail "unit: a unit without its filters was not noticed"
    fi
    in_debian
    said=$(systemd-analyze verify --root="$debian" --man=no tstar.service 2>&1) &&
        [ -z "$said" ] || fail "unit: $said"
    broken=$debian/usr/lib/systemd/system/broken.service
    sed 's/^TimeoutStopSec=45s/TimeoutStopSecs=45s/' deploy/tstar.service >"$broken"
    said=$(systemd-analyze verify --root="$debian" --man=no broken.service 2>&1) || true
    rm "$broken"
    grep -q TimeoutStopSecs <<<"$said" || fail "unit: a misspelt key was not noticed: $said"
    pass "unit: verified with its program; a misspelt key was found"
    check_calls
}

# The system calls of a daemon and of a demo, as the service's user, are among those that the unit
# allows: root would make others.
check_calls() {
    local port said home=$debian/var/lib/tstar
    port=$(free_port)
    in_chroot install -d -m 750 -o tstar -g tstar /var/lib/tstar
    as_service strace -f -o calls.demo tstar demo </dev/null >/dev/null 2>&1
    start_daemon as_service strace -f -o calls.run tstar run --from earliest \
        --store sqlite:calls.db --brokers 127.0.0.1:1 --listen "127.0.0.1:$port"
    await_daemon "$port"
    # To the program itself: strace passes no signal on.
    kill -TERM "$(pgrep --full '^tstar run --from earliest --store sqlite:calls.db ')"
    stop_daemon
    said=$(python3 "$here/calls.py" deploy/tstar.service "$home/calls.demo" "$home/calls.run") ||
        fail "unit: its filter refuses what the program calls"
    pass "$said"
}

# As the user of the service, in its folder.
as_service() {
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot --userspec=tstar:tstar \
        "$debian" sh -c 'cd /var/lib/tstar && exec "$@"' sh "$@"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_daemon() {
    "$@" >"$work/daemon.out" 2>"$work/daemon.log" &
    daemon=$!
}

# await_daemon PORT: until it answers; it is not ready, as it has no brokers.
await_daemon() {
    local said
    curl --silent --fail --retry 60 --retry-delay 1 --retry-connrefused --output /dev/null \
        "http://127.0.0.1:$1/livez" || fail "the daemon does not answer: $(cat "$work/daemon.log")"
    said=$(curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:$1/readyz")
    [ "$said" = 503 ] || fail "/readyz of a daemon without brokers: $said"
}

stop_daemon() {
    local code=0
    wait "$daemon" || code=$?
    daemon=
    [ "$code" = 0 ] || fail "the daemon ended with $code: $(cat "$work/daemon.log")"
}

clean_up() {
    [ -z "${daemon:-}" ] || kill -KILL "$daemon" 2>/dev/null || true
    leave_image
    leave_debian
}

check_workflow() {
    python3 - <<'END' || fail "workflow: .github/workflows does not fit"
import pathlib, re, yaml
for name, runs in {"ci": ".ci/run", "advisories": ".ci/advisories", "release": "deploy/release"}.items():
    text = pathlib.Path(f".github/workflows/{name}.yml").read_text()
    steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
    assert any(runs in step.get("run", "") for step in steps), name
    for step in steps:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step.get("uses", "a@" + "0" * 40)), step
END
    pass "workflow: each calls its script, and names actions by commit"
}
