#!/usr/bin/env bash
# kafka.sh JARS DIR PORT [FIRST]: a broker on 127.0.0.1:PORT, its controller on the port after it; data in DIR.
# With FIRST, the port of such a broker: a second one of its cluster, without a controller.
# Where there is DIR/tls, clients are heard over TLS alone and show a certificate: server.pem has the broker's key and
# certificate, ca.pem who signs for clients.
# A test that needs more writes it into DIR first: more.properties replaces settings, java.options is for the JVM, and
# format.options for the first start.
set -euo pipefail
jars="$1" dir="$2" port="$3" first="${4:-}"
mkdir -p "$dir"
listener=PLAINTEXT
[ ! -d "$dir/tls" ] || listener=SSL
own="process.roles=broker,controller
node.id=1
listeners=$listener://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))"
[ -z "$first" ] || own="process.roles=broker
node.id=2
listeners=$listener://127.0.0.1:$port"
cat >"$dir/server.properties" <<P
$own
controller.quorum.voters=1@127.0.0.1:$((${first:-$port} + 1))
controller.listener.names=CONTROLLER
advertised.listeners=$listener://127.0.0.1:$port
listener.security.protocol.map=$listener:$listener,CONTROLLER:PLAINTEXT
inter.broker.listener.name=$listener
log.dirs=$dir/data
num.partitions=4
# One node, so one replica of what the broker keeps for itself.
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
# Groups that form at once, and members that may be lost after a second.
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
P
[ ! -d "$dir/tls" ] || cat >>"$dir/server.properties" <<P
ssl.client.auth=required
ssl.keystore.type=PEM
ssl.keystore.location=$dir/tls/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/tls/ca.pem
P
[ ! -f "$dir/more.properties" ] || cat "$dir/more.properties" >>"$dir/server.properties"
touch "$dir/java.options" "$dir/format.options"
java=(java "@$dir/java.options" -Xms256m -Xmx768m -XX:+UseSerialGC -cp "$jars/*")
if [ ! -f "$dir/data/meta.properties" ]; then
  mapfile -t format <"$dir/format.options"
  "${java[@]}" kafka.tools.StorageTool format --cluster-id dHN0YXItdGVzdHMtYWJjZA --config "$dir/server.properties" \
    "${format[@]}"
fi
exec "${java[@]}" kafka.Kafka "$dir/server.properties"
