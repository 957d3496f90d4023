# Sourced by tests/nightly/connect: what is done to the instances of tstar, to the topics and to the sink.
kills=0 freezes=0 sink_kills=0 frozen=
brokers() { echo "127.0.0.1:$kafka_port"; }
store() { echo "scylla://127.0.0.1:$cql_port/fleet"; }

find_tstar() {
    tstar=${TSTAR_TEST_BIN:-}
    if [ -z "$tstar" ]; then
        (cd "$root" && cargo build --locked --release --bin tstar >&2)
        tstar=$root/target/release/tstar
    fi
    [ -x "$tstar" ] || fail "there is no program $tstar"
}

kafka_tool() { java -Xmx256m -XX:+UseSerialGC -cp "$tools" "$@" 2>>"$run/tools.log"; }

# The topic of the samples, the keyspace, a control key, and the samples in slices, keyed by device.
prepare() {
    kafka_tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$(brokers)" --create --topic samples \
        --partitions $parts >>"$run/tools.log" || fail "no topic; see tools.log"
    "$tstar" schema apply --create-keyspace --store "$(store)" >>"$run/tstar.log" 2>&1 || fail "see tstar.log"
    (umask 077 && "$tstar" forget --new-key nightly >"$run/control.keys")
    "$tstar" simulate --devices 60 --samples "$samples" --seed "$seed" |
        python3 "$here/records.py" slices "$run/slices" $slices
    victim=$(python3 "$here/records.py" victim "$run/slices")
}

send() {
    kcat -P -b "$(brokers)" -t samples -K '\t' -X partitioner=murmur2_random -l "$run/slices/$1" 2>>"$run/kcat.log" ||
        fail "slice $1 was not sent; see kcat.log"
}

http_of() { if [ "$1" = a ]; then echo "$http_a"; else echo "$http_b"; fi; }

# Members that are lost after six seconds, and trips that are written within two.
start_writer() {
    start "$1" "$tstar" run --table-topic --create-topics --from earliest --partitioner murmur2 \
        --brokers "$(brokers)" --topic samples --store "$(store)" --control-key-file "$run/control.keys" \
        --max-leg-speed 21 --flush-interval 200ms --max-staleness 2s --listen "127.0.0.1:$(http_of "$1")" \
        --kafka session.timeout.ms=6000 --kafka heartbeat.interval.ms=500
}

# kill_writer NAME...: kills them at once, then starts them again.
kill_writer() {
    local name
    for name in "$@"; do end "$name" KILL; done
    for name in "$@"; do start_writer "$name"; done
    kills=$((kills + $#))
}

# Stops an instance in the middle of its work until the other has all partitions, which does not know of that.
freeze() {
    local other=a
    [ "$1" != a ] || other=b
    [ "$(owned "$1")" -gt 0 ] || await 60 "$1 to own partitions" owns "$1" 1
    kill -STOP "${pids[$1]}"
    frozen=$1
    await 90 "$other to take over what $1 had" owns "$other" $parts
}

# Lets a frozen instance run: it finds its partitions taken, but may first write what it has.
thaw() {
    await 90 "every record to be committed without $1" is_committed
    kill -CONT "${pids[$1]}"
    frozen=
    freezes=$((freezes + 1))
    await 90 "$1 to own partitions again" owns "$1" 1
}

# metrics NAME METRIC: the samples of a metric, one `LABELS VALUE` a line; none from an instance that does not answer.
metrics() {
    [ "$frozen" != "$1" ] || return 0
    curl -s --max-time 5 "http://127.0.0.1:$(http_of "$1")/metrics" | sed -n "s/^$2\({.*}\)* /\1 /p" || true
}
owned() { metrics "$1" tstar_kafka_committed_offset | wc -l; }
owns() { [ "$(owned "$1")" -ge "$2" ]; }
share() { owns a 1 && owns b 1 && [ $(($(owned a) + $(owned b))) = $parts ]; }

# ends TOPIC PARTITIONS: `PARTITION OFFSET` a line, of what has been written, in open transactions too.
ends() {
    local args=() part
    for part in $(seq 0 $(($2 - 1))); do args+=(-t "$1:$part:-1"); done
    kcat -Q -b "$(brokers)" -X isolation.level=read_uncommitted "${args[@]}" 2>>"$run/kcat.log" |
        sed -n 's/^[^ ]* \[\([0-9]*\)\] offset \([0-9]*\)$/\1 \2/p' | sort -n
}
table=samples.trips.table
table_parts() { kcat -L -b "$(brokers)" -t $table 2>/dev/null | grep -c '^    partition '; }
table_end() { ends $table "$(table_parts)" | awk '{ sum += $2 } END { print sum + 0 }'; }
grew() { [ "$(table_end)" -gt "$1" ]; }

is_committed() {
    local committed
    committed=$(for name in a b; do metrics $name tstar_kafka_committed_offset; done |
        sed 's/.*partition="\([0-9]*\)".* \([0-9]*\)$/\1 \2/' | sort -n)
    [ "$(echo "$committed" | wc -l)" = $parts ] &&
        [ "$(echo "$committed" | grep -v ' 0$')" = "$(ends samples $parts | grep -v ' 0$')" ]
}

is_sink_running() { rest connectors/trips/status | python3 "$here/records.py" running; }
rows_of_victim() { sql -d fleet -At -c "SELECT count(*) FROM trips WHERE device_id = '$victim'" 2>/dev/null; }
has_victim() { [ "$(rows_of_victim)" -gt 0 ]; }

# Erases a device that has rows in PostgreSQL.
forget() {
    await 60 "rows of $victim in PostgreSQL" has_victim
    "$tstar" forget "$victim" --yes --wait --brokers "$(brokers)" --topic samples --store "$(store)" \
        --control-key-file "$run/control.keys" >>"$run/tstar.log" 2>&1 || fail "forget failed; see tstar.log"
}

end_writers() {
    local name pid
    for name in a b; do
        pid=${pids[$name]}
        end $name TERM
        wait "$pid" || fail "$name did not end with 0; see $name.log"
    done
}

# Reads every record again, with the sink running, and kills an instance meanwhile.
replay() {
    end_writers
    kafka_tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$(brokers)" \
        --group tstar --topic samples --reset-offsets --to-earliest --execute >>"$run/tools.log" ||
        fail "the offsets were not reset; see tools.log"
    start_writer a
    start_writer b
    await 60 "records to be read again" reads_again
    kill_writer a
    await 180 "every record to be committed after the replay" is_committed
}
reads_again() {
    local count
    count=$(for name in a b; do metrics $name tstar_samples_total; done | awk '{ sum += $NF } END { print sum + 0 }')
    [ "$count" -gt $((samples / 10)) ]
}

# The table topic as readers of committed records see it, and as others do.
dump() {
    kcat -C -b "$(brokers)" -t $table -o beginning -e -q -X "isolation.level=$1" -Z -f '%p\t%o\t%S\t%k\t%s\n' \
        2>>"$run/kcat.log" || fail "the table topic cannot be read; see kcat.log"
}
is_drained() {
    is_sink_running || fail "the sink failed; see connect.log"
    dump read_committed >"$run/table.tsv"
    rest connectors/trips/offsets | python3 "$here/records.py" drained "$run/table.tsv"
}

check() {
    "$tstar" export --store "$(store)" --format csv --out "$run/export.csv" >>"$run/tstar.log" 2>&1 ||
        fail "export failed; see tstar.log"
    sql -d fleet --csv -P 'null=\N' -c "SELECT * FROM trips" >"$run/postgres.csv"
    dump read_uncommitted >"$run/uncommitted.tsv"
    python3 "$here/check.py" "$run" "$victim" $kills $freezes
}
