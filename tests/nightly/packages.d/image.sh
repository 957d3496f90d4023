# Checks of the image, with an engine and a real broker. To be sourced by tests/nightly/packages.

# The size that the image may have, bytes.
max_image=40000000

# How the documents say that it is to run: without anything that it could write to.
confined=(--read-only --cap-drop all --security-opt no-new-privileges)

# The container of the daemon, and the process of the broker.
container= broker_pid=

leave_image() {
    [ -z "$container" ] || "${engine[@]}" rm --force "$container" >/dev/null 2>&1 || true
    [ -z "${engine:-}" ] || "${engine[@]}" volume rm --force "tstar-check-$$" >/dev/null 2>&1 || true
    [ -z "${engine:-}" ] || "${engine[@]}" rmi --force tstar-context >/dev/null 2>&1 || true
    [ -z "$broker_pid" ] || kill -KILL "$broker_pid" 2>/dev/null || true
    container= broker_pid=
}

# in_image [OPTION...] -- WORD...: runs tstar.
in_image() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    "${engine[@]}" run --rm "${confined[@]}" "${options[@]}" "$image" "${@:2}"
}

inspect() { "${engine[@]}" inspect --format "$1" "$image"; }

# What the engine sends for the build is enough for cargo to read the manifest.
check_context() {
    local folder=$work/context
    rm -rf "$folder" && mkdir -p "$folder"
    printf 'FROM scratch\nCOPY . /src\n' >"$work/context.Dockerfile"
    "${engine[@]}" build --quiet --file "$work/context.Dockerfile" --tag tstar-context . >/dev/null
    container=$("${engine[@]}" create tstar-context true)
    "${engine[@]}" cp "$container:/src/." "$folder"
    "${engine[@]}" rm "$container" >/dev/null
    "${engine[@]}" rmi tstar-context >/dev/null
    container=
    # Members of the workspace, which cargo reads.
    [ "$(cd "$folder/tests" && echo *)" = "sim tidy" ] ||
        fail "image: the build gets files that it does not read"
    cargo metadata --manifest-path "$folder/Cargo.toml" --locked --offline --format-version 1 \
        >/dev/null || fail "image: .dockerignore keeps back what cargo reads"
    [ -x "$folder/deploy/rootfs" ] || fail "image: .dockerignore keeps back deploy/rootfs"
}

# A broker as the tests have it.
start_broker() {
    local jars port
    jars=$(tests/servers/jars.sh kafka | tail -1)
    port=$(free_port)
    rm -rf "$work/kafka"
    tests/servers/kafka.sh "$jars" "$work/kafka" "$port" >"$work/kafka.log" 2>&1 &
    broker_pid=$!
    broker=127.0.0.1:$port
    java -cp "$jars/*:$(tests/servers/jars.sh kafka-tools | tail -1)/*" org.apache.kafka.tools.TopicCommand \
        --bootstrap-server "$broker" --create --topic image --partitions 2 >"$work/topic.log" 2>&1 ||
        fail "image: no broker: $(cat "$work/topic.log" "$work/kafka.log")"
}

# The engine's own health check, which it may run by a timer that is not there.
is_healthy() {
    case ${engine[0]} in
    podman) "${engine[@]}" healthcheck run "$container" >/dev/null 2>&1 ;;
    *) [ "$("${engine[@]}" inspect --format '{{.State.Health.Status}}' "$container")" = healthy ] ;;
    esac
}

check_daemon() {
    local try said
    start_broker
    "$program" simulate --brokers "$broker" --topic image --devices 20 --samples 2000 \
        >"$work/simulate.log" 2>&1 || fail "image: $(cat "$work/simulate.log")"
    container=$("${engine[@]}" run --detach "${confined[@]}" --network host \
        --volume "tstar-check-$$:/var/lib/tstar" --env "TSTAR_BROKERS=$broker" \
        --env "TSTAR_TOPIC=image" --env "TSTAR_LISTEN=127.0.0.1:$(free_port)" \
        "$image" run --from earliest)
    for try in $(seq 60); do
        is_healthy && break
        [ "$try" != 60 ] || fail "image: not healthy: $("${engine[@]}" logs "$container" 2>&1 | tail -5)"
        sleep 1
    done
    "${engine[@]}" stop --time 40 "$container" >/dev/null
    [ "$("${engine[@]}" inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] ||
        fail "image: the daemon ended with $("${engine[@]}" logs "$container" 2>&1 | tail -5)"
    is_healthy && fail "image: a daemon that has ended is healthy"
    said=$(in_image --volume "tstar-check-$$:/var/lib/tstar" -- trips truck-17 --limit 1 --json) ||
        fail "image: no trips in the volume"
    grep -q '"device_id":"truck-17"' <<<"$said" || fail "image: $said"
    leave_image
    pass "image: a daemon builds trips from a topic, is healthy, and stops with 0"
}

check_image() {
    local file size said
    need_engine
    file=$(echo "$files"/tstar-*-image-*.tar.gz)
    said=$(gunzip --stdout "$file" | "${engine[@]}" load)
    image=$(sed -n 's/^Loaded image[^:]*: //p' <<<"$said" | tail -1)
    size=$(inspect '{{.Size}}')
    [ "$size" -le $max_image ] || fail "image: $size bytes, more than $max_image"
    [ "$(inspect '{{.Config.User}}')" = 10001:10001 ] || fail "image: runs as $(inspect '{{.Config.User}}')"
    [ "$(in_image -- --version)" = "$("$program" --version)" ] || fail "image: has another program"
    pass "image: $size bytes, $(in_image -- --version), not root"
    said=$(in_image -- demo </dev/null 2>&1) && fail "image: its root file system can be written to"
    grep -q 'Read-only file system' <<<"$said" || fail "image: a read-only file system: $said"
    in_image --volume "tstar-check-$$:/var/lib/tstar" -- demo </dev/null >"$work/demo.txt" 2>&1 ||
        fail "image: $(cat "$work/demo.txt")"
    grep -q '~' "$work/demo.txt" || fail "image: its demo found no trip"
    in_image --entrypoint /bin/sh -- -c true >/dev/null 2>&1 && fail "image: it has a shell"
    pass "image: writes nothing outside of a volume, and has no shell"
    check_context
    check_daemon
}
