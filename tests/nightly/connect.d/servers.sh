# Sourced by tests/nightly/connect: jars, servers and what waits for them. Everything is on 127.0.0.1,
# and in $run. A process that is started here ends with the script: its trap or the kernel kills it.
declare -A pids=()

fail() {
    echo "tests/nightly/connect: $*" >&2
    echo "tests/nightly/connect: logs are in $run" >&2
    exit 1
}

# await SECONDS WHAT COMMAND...: polls COMMAND until it succeeds.
await() {
    local end=$((SECONDS + $1)) what=$2 name
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || fail "not within the time limit: $what"
        for name in "${!pids[@]}"; do
            kill -0 "${pids[$name]}" 2>/dev/null ||
                fail "$name ended while waiting: $what; see $name.log"
        done
        sleep 0.2
    done
}

# start NAME COMMAND...: runs it in the background, with its output added to NAME.log.
start() {
    local name=$1
    shift
    setpriv --pdeathsig KILL "$@" </dev/null >>"$run/$name.log" 2>&1 &
    pids[$name]=$!
}

# end NAME SIGNAL: sends the signal, and waits until the process is gone.
end() {
    local pid=${pids[$1]}
    unset "pids[$1]"
    kill "-$2" "$pid" || fail "$1 had ended by itself; see $1.log"
    await 60 "the end of $1 after SIG$2" is_gone "$pid"
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }

clean_up() {
    local name
    for name in "${!pids[@]}"; do
        # A postmaster that is killed leaves its children, which SIGQUIT ends.
        [ "$name" != postgres ] || kill -QUIT "${pids[$name]}" 2>/dev/null || true
        [ "$name" = postgres ] || kill -KILL "${pids[$name]}" 2>/dev/null || true
    done
    wait 2>/dev/null
}

# free_ports N: that many free ports, each with a free one after it, all apart.
free_ports() {
    python3 - "$1" <<'P'
import socket
import sys

held, ports = [], []
while len(ports) < int(sys.argv[1]):
    first, second = socket.socket(), socket.socket()
    held += [first, second]
    first.bind(("127.0.0.1", 0))
    port = first.getsockname()[1]
    try:
        second.bind(("127.0.0.1", port + 1))
    except (OSError, OverflowError):
        continue
    ports.append(port)
print(*ports)
P
}
is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# jars POM FOLDER: what the POM names, fetched once into target/connect/FOLDER.
jars() {
    local pom=$here/$1 folder=$root/target/connect/$2 part
    if ! [ -f "$folder/.pom" ] || ! cmp -s "$pom" "$folder/.pom"; then
        part=$(mktemp -d "$root/target/connect/part.XXXXXX")
        mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime \
            "-DoutputDirectory=$part" >&2 || fail "Maven did not resolve $pom"
        cp "$pom" "$part/.pom"
        rm -rf "$folder"
        mkdir -p "$(dirname "$folder")"
        mv -T "$part" "$folder"
    fi
}

install() {
    local program missing=() postgres
    postgres=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -1 || true)
    [ -n "$postgres" ] || missing+=(postgresql)
    for program in java:openjdk-17-jre-headless mvn:maven kcat:kcat curl:curl \
        psql:postgresql-client python3:python3; do
        command -v "${program%%:*}" >/dev/null || missing+=("${program#*:}")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; } ||
            fail "install these, then run again: ${missing[*]}"
        apt-get update >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
            "${missing[@]}" >&2
        postgres=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -1)
    fi
    pg_bin=$(dirname "$postgres")
    mkdir -p "$root/target/connect"
    jars pom-runtime.xml runtime
    jars pom-sink.xml plugins/debezium-jdbc
    if [ "$format" = avro ]; then
        jars pom-converter.xml plugins/apicurio
        jars pom-registry.xml registry
    fi
}

start_kafka() {
    local kafka kafka_tools
    kafka=$("$root/tests/servers/jars.sh" kafka)
    kafka_tools=$("$root/tests/servers/jars.sh" kafka-tools)
    tools="$kafka/*:$kafka_tools/*"
    start kafka bash "$root/tests/servers/kafka.sh" "$kafka" "$run/kafka" "$kafka_port"
}

# A registry that keeps its schemas in memory.
start_registry() {
    mkdir "$run/registry"
    tar xzf "$root"/target/connect/registry/*.tar.gz -C "$run/registry"
    start registry java -Xmx512m -XX:+UseSerialGC -Dquarkus.http.host=127.0.0.1 \
        "-Dquarkus.http.port=$registry_port" -jar "$run"/registry/*-runner.jar
}
is_registry_up() { curl -sf -o /dev/null "http://127.0.0.1:$registry_port/apis/ccompat/v7/subjects"; }

start_cassandra() {
    local cassandra
    cassandra=$("$root/tests/servers/jars.sh" cassandra)
    start cassandra bash "$root/tests/servers/cassandra.sh" "$cassandra" "$run/cassandra" "$cql_port"
}

# PostgreSQL does not run as root.
as_postgres() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid postgres --regid postgres --clear-groups "$@"
    else
        "$@"
    fi
}

start_postgres() {
    mkdir -p "$run/postgres"
    echo "$PGPASSWORD" >"$run/postgres/password"
    [ "$(id -u)" != 0 ] || chown -R postgres "$run/postgres"
    (cd "$run/postgres" && as_postgres "$pg_bin/initdb" -D "$run/postgres/data" -U tstar \
        --auth scram-sha-256 --pwfile "$run/postgres/password" --encoding UTF8 --locale C.UTF-8) \
        >"$run/initdb.log" 2>&1 || fail "initdb failed; see initdb.log"
    local user=()
    [ "$(id -u)" != 0 ] || user=(--reuid postgres --regid postgres --clear-groups)
    # Far from UTC, and so is the sink: times have to be right anyway.
    start postgres "${user[@]}" "$pg_bin/postgres" -D "$run/postgres/data" -p "$pg_port" \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c timezone=America/St_Johns
}
sql() { psql -X -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -p "$pg_port" -U tstar "$@"; }
is_postgres_up() { sql -d postgres -c "SELECT 1" >/dev/null 2>&1; }

# Connect's worker with the sink, as deploy/connect has them.
start_connect() {
    start connect env TZ=Asia/Kolkata java -Xms128m -Xmx512m -XX:+UseSerialGC \
        -cp "$root/target/connect/runtime/*" \
        org.apache.kafka.connect.cli.ConnectStandalone "$run/worker.properties" \
        "$run/sink.properties"
}
rest() { curl -sf --max-time 5 "http://127.0.0.1:$rest_port/$1"; }
