# Sourced by tests/nightly/connect: what is done to the instances of tstar, the topics and the sink.
kills=0 freezes=0 sink_kills=0 sent=0 frozen=
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

kafka_tool() {
    java -Xmx256m -XX:+UseSerialGC -cp "$tools" "$1" --bootstrap-server "$(brokers)" "${@:2}" \
        2>>"$run/tools.log"
}

# The topic of the samples, the keyspace, a control key, and the samples in slices, keyed by device.
prepare() {
    kafka_tool org.apache.kafka.tools.TopicCommand --create --topic samples --partitions $parts \
        >>"$run/tools.log" || fail "no topic; see tools.log"
    "$tstar" schema apply --create-keyspace --store "$(store)" >>"$run/tstar.log" 2>&1 ||
        fail "no keyspace; see tstar.log"
    (umask 077 && "$tstar" forget --new-key nightly >"$run/control.keys")
    "$tstar" simulate --mix 46,34,19,1 --devices 200 --samples "$samples" --seed "$seed" |
        python3 "$here/records.py" slices "$run/slices" $slices
    victim=$(python3 "$here/records.py" victim "$run/slices")
}

send_next() {
    kcat -P -b "$(brokers)" -t samples -K '\t' -X partitioner=murmur2_random \
        -l "$run/slices/$sent" 2>>"$run/kcat.log" ||
        fail "slice $sent was not sent; see kcat.log"
    sent=$((sent + 1))
}

http_of() { if [ "$1" = a ]; then echo "$http_a"; else echo "$http_b"; fi; }

# Members that are lost after six seconds, and trips that are written within two.
start_writer() {
    local registry=()
    [ "$format" = json ] ||
        registry=(--schema-registry "http://127.0.0.1:$registry_port/apis/ccompat/v7")
    start "$1" "$tstar" run "${registry[@]}" --table-topic --table-partitions $table_parts --create-topics \
        --brokers "$(brokers)" --topic samples --from earliest --partitioner murmur2 \
        --store "$(store)" --control-key-file "$run/control.keys" --max-leg-speed 21 \
        --flush-interval 200ms --max-staleness 2s --listen "127.0.0.1:$(http_of "$1")" \
        --kafka session.timeout.ms=6000 --kafka heartbeat.interval.ms=500
}

# kill_writer NAME...: kills them at once, then starts them again.
kill_writer() {
    local name
    for name in "$@"; do end "$name" KILL; done
    for name in "$@"; do start_writer "$name"; done
    kills=$((kills + $#))
}

kill_sink() {
    end connect KILL
    sink_kills=$((sink_kills + 1))
}

# freeze NAME OTHER: stops an instance within a transaction, until the other has all partitions.
freeze() {
    local until=$((sent + 6)) end
    await 60 "$1 to own partitions" owns "$1" 1
    while ! freeze_within "$1"; do
        [ "$sent" -lt "$until" ] || fail "$1 was not found within a transaction"
        send_next
    done
    frozen=$1
    end=$(table_end)
    await 90 "$2 to take over what $1 had" owns "$2" $parts
    await 90 "the end of the transaction of $1" is_decided "$end"
}
# Tries for three seconds: a transaction that stays open while the instance is stopped is its own.
freeze_within() {
    local end=$((SECONDS + 3))
    while [ "$SECONDS" -lt "$end" ]; do
        kill -STOP "${pids[$1]}"
        if is_open_transaction && sleep 0.5 && is_open_transaction; then return 0; fi
        kill -CONT "${pids[$1]}"
        sleep 0.05
    done
    return 1
}
is_open_transaction() { [ "$(table_end)" -gt "$(table_end read_committed)" ]; }
is_decided() { [ "$(table_end read_committed)" -ge "$1" ]; }

# Lets a frozen instance run: it finds its partitions taken, but may first write what it has.
thaw() {
    await 90 "every record to be committed without $1" is_committed
    kill -CONT "${pids[$1]}"
    frozen=
    freezes=$((freezes + 1))
    await 90 "$1 to own partitions again" owns "$1" 1
}

# metrics NAME METRIC: the samples of a metric, one `LABELS VALUE` a line, if it answers.
metrics() {
    [ "$frozen" != "$1" ] || return 0
    curl -s --max-time 5 "http://127.0.0.1:$(http_of "$1")/metrics" |
        sed -n "s/^$2\({.*}\)* /\1 /p" || true
}
owned() { metrics "$1" tstar_kafka_committed_offset | wc -l; }
owns() { [ "$(owned "$1")" -ge "$2" ]; }
share() { owns a 1 && owns b 1 && [ $(($(owned a) + $(owned b))) = $parts ]; }

# ends TOPIC PARTITIONS [ISOLATION]: `PARTITION OFFSET` a line, of what was written, in open
# transactions too unless ISOLATION is read_committed.
ends() {
    local args=() part
    for part in $(seq 0 $(($2 - 1))); do args+=(-t "$1:$part:-1"); done
    kcat -Q -b "$(brokers)" -X "isolation.level=${3:-read_uncommitted}" "${args[@]}" \
        2>>"$run/kcat.log" |
        sed -n 's/^[^ ]* \[\([0-9]*\)\] offset \([0-9]*\)$/\1 \2/p' | sort -n
}
table=samples.trips.table
table_end() { ends $table $table_parts "$@" | awk '{ sum += $2 } END { print sum + 0 }'; }
grew() { [ "$(table_end)" -gt "$1" ]; }

is_committed() {
    local committed
    committed=$(for name in a b; do metrics $name tstar_kafka_committed_offset; done |
        sed 's/.*partition="\([0-9]*\)".* \([0-9]*\)$/\1 \2/' | sort -n)
    [ "$(echo "$committed" | wc -l)" = $parts ] &&
        [ "$(echo "$committed" | grep -v ' 0$')" = "$(ends samples $parts | grep -v ' 0$')" ]
}

# Whether the table topic has the settings that docs/data-out.md lists for --create-topics.
has_documented_settings() {
    local setting
    kafka_tool org.apache.kafka.tools.TopicCommand --describe --topic $table >"$run/topic.txt" &&
        for setting in cleanup.policy delete.retention.ms max.compaction.lag.ms; do
            setting=$(sed -n "s/^| .$setting. | .\([a-z0-9]*\). .*/$setting=\1/p" \
                "$root/docs/data-out.md")
            tr ', \t' '\n' <"$run/topic.txt" | grep -qx "${setting:-undocumented}" || return 1
        done
}
is_sink_running() { rest "connectors/${1:-trips}/status" | python3 "$here/records.py" running; }
has_victim() {
    local count="SELECT count(*) FROM trips WHERE device_id = '$victim'"
    [ "$(sql -d fleet -At -c "$count" 2>/dev/null || echo 0)" -gt 0 ]
}

# Erases a device that has rows in PostgreSQL.
forget() {
    await 60 "rows of $victim in PostgreSQL" has_victim
    "$tstar" forget "$victim" --yes --wait --brokers "$(brokers)" --topic samples \
        --store "$(store)" --control-key-file "$run/control.keys" >>"$run/tstar.log" 2>&1 ||
        fail "forget failed; see tstar.log"
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
    kafka_tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --group tstar \
        --topic samples --reset-offsets --to-earliest --execute >>"$run/tools.log" ||
        fail "the offsets were not reset; see tools.log"
    # What is written from here on is in short segments, which the brokers compact at once.
    kafka_tool kafka.admin.ConfigCommand --alter --topic $table \
        --add-config segment.ms=1000,min.cleanable.dirty.ratio=0.01 >>"$run/tools.log" ||
        fail "the topic was not changed; see tools.log"
    dump read_uncommitted >"$run/uncommitted.tsv"
    dump read_committed >"$run/committed.tsv"
    start_writer a
    start_writer b
    await 60 "records to be read again" reads_again
    kill_writer a
    await 180 "every record to be committed after the replay" is_committed
}
reads_again() {
    local count
    count=$(for name in a b; do metrics $name tstar_samples_total; done |
        awk '{ sum += $NF } END { print sum + 0 }')
    [ "$count" -gt $((samples / 10)) ]
}

# The table topic as readers of committed records see it, and as others do; without values that are
# not text.
dump() {
    local value=%s
    [ "$format" = json ] || value=
    kcat -C -b "$(brokers)" -t $table -o beginning -e -q -X "isolation.level=$1" -Z \
        -f '%p\t%o\t%S\t%k\t'"$value"'\n' 2>>"$run/kcat.log" || fail "the table topic cannot be read; see kcat.log"
}
# is_drained SINK: whether it has applied every record.
is_drained() {
    is_sink_running "$1" || fail "sink $1 failed; see connect.log"
    dump read_committed >"$run/table.tsv"
    rest "connectors/$1/offsets" | python3 "$here/records.py" drained "$run/table.tsv"
}

# Waits until the brokers have compacted the topic, then fills another table by a new sink. That table
# is made before it, as docs/data-out.md says.
late_sink() {
    records=$(wc -l <"$run/committed.tsv")
    await 180 "compaction of the table topic" is_compacted
    sql -d postgres -c "CREATE DATABASE late"
    sql -d late -f "$run/trips.sql"
    python3 "$here/records.py" config "$run/sink.properties" late \
        "connection.url=jdbc:postgresql://127.0.0.1:$pg_port/late" |
        curl -sf --max-time 30 -X PUT -H 'Content-Type: application/json' --data @- \
            "http://127.0.0.1:$rest_port/connectors/late/config" >>"$run/tools.log" ||
        fail "no sink late; see tools.log"
    await 60 "the new sink to start" is_sink_running late
    await 120 "the new sink to have everything" is_drained late
}
is_compacted() { [ "$(dump read_committed | wc -l)" -lt $((records * 9 / 10)) ]; }

check() {
    local database
    "$tstar" export --store "$(store)" --format csv --out "$run/export.csv" \
        >>"$run/tstar.log" 2>&1 || fail "export failed; see tstar.log"
    for database in fleet late; do
        sql -d $database --csv -P 'null=\N' -c "SELECT * FROM trips" >"$run/postgres-$database.csv"
    done
    python3 "$here/check.py" "$run" $format $table_parts "$victim" $kills $freezes
}
