#!/usr/bin/env bash
# cassandra.sh JARS DIR PORT [ADDRESS [SEED [RPC]]]: one node on ADDRESS, CQL on PORT, storage on the port after it;
# data in DIR. Nodes of one cluster share ports and SEED, and start one after the other. RPC is where clients
# are heard, where that is not ADDRESS. Where there is DIR/tls, clients are heard over TLS alone and show a certificate:
# server.pem has the node's key and certificate, ca.pem who signs for clients. Where there is DIR/roles, clients log in
# instead: at first as cassandra, with that password. Where there is DIR/jmx, nodetool is heard on 127.0.0.1, at the port
# in that file. Where there is DIR/datacenter, the node is in the datacenter of that name.
set -euo pipefail
jars="$1" dir="$2" port="$3" address="${4:-127.0.0.1}" seed="${5:-${4:-127.0.0.1}}" rpc="${6:-${4:-127.0.0.1}}"
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$dir/conf"
authenticator=AllowAllAuthenticator authorizer=AllowAllAuthorizer
[ ! -e "$dir/roles" ] || authenticator=PasswordAuthenticator authorizer=CassandraAuthorizer
snitch=SimpleSnitch
if [ -e "$dir/datacenter" ]; then
  snitch=GossipingPropertyFileSnitch
  printf 'dc=%s\nrack=one\n' "$(<"$dir/datacenter")" >"$dir/conf/cassandra-rackdc.properties"
fi
cat >"$dir/conf/cassandra.yaml" <<C
cluster_name: tstar tests
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 1
auto_bootstrap: false
listen_address: $address
storage_port: $((port + 1))
rpc_address: $rpc
start_native_transport: true
native_transport_port: $port
endpoint_snitch: $snitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "$seed:$((port + 1))"
data_file_directories: [$dir/data]
commitlog_directory: $dir/commitlog
saved_caches_directory: $dir/saved_caches
hints_directory: $dir/hints
cdc_raw_directory: $dir/cdc
commitlog_sync: batch
# Or each keyspace that is dropped is flushed and linked first.
auto_snapshot: false
authenticator: $authenticator
authorizer: $authorizer
disk_failure_policy: stop
commit_failure_policy: stop
C
[ "$rpc" != 0.0.0.0 ] || echo "broadcast_rpc_address: 127.0.0.1" >>"$dir/conf/cassandra.yaml"
[ ! -d "$dir/tls" ] || cat >>"$dir/conf/cassandra.yaml" <<C
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: true
  ssl_context_factory:
    class_name: org.apache.cassandra.security.PEMBasedSslContextFactory
  keystore: $dir/tls/server.pem
  truststore: $dir/tls/ca.pem
C
# Without this file it logs at DEBUG.
cat >"$dir/conf/logback.xml" <<X
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
X
jmx=()
[ ! -e "$dir/jmx" ] || jmx=("-Dcassandra.jmx.local.port=$(<"$dir/jmx")")
# The first role at once, not after ten seconds.
exec java -Xms512m -Xmx1g -Dcassandra.superuser_setup_delay_ms=0 "${jmx[@]}" "@$here/cassandra.options" \
  "-Dcassandra.config=file://$dir/conf/cassandra.yaml" "-Dcassandra.storagedir=$dir" \
  -cp "$dir/conf:$jars/*" org.apache.cassandra.service.CassandraDaemon
