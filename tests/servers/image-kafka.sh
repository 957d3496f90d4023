#!/bin/bash
# Runs the stand-in image of apache/kafka. As in the real one, KAFKA_FOO_BAR=x sets foo.bar=x, and a log line
# reports that it is up.
set -euo pipefail
dir=/tmp/kafka
mkdir -p "$dir"
declare -A settings=([log.dirs]="$dir/data")
while IFS='=' read -r name value; do
  [ "$name" != KAFKA_HEAP_OPTS ] || continue
  name="${name#KAFKA_}" name="${name,,}"
  settings["${name//_/.}"]="$value"
done < <(env | grep '^KAFKA_')
for name in "${!settings[@]}"; do echo "$name=${settings[$name]}"; done >"$dir/server.properties"
read -ra heap <<<"${KAFKA_HEAP_OPTS:--Xmx768m}"
java=(java "${heap[@]}" -XX:+UseSerialGC -cp "/srv/lib/*")
"${java[@]}" kafka.tools.StorageTool format --ignore-formatted --cluster-id "${CLUSTER_ID:-dHN0YXItdGVzdHMtYWJjZA}" \
  --config "$dir/server.properties"
(until (: </dev/tcp/127.0.0.1/9092) 2>/dev/null; do sleep 0.1; done; echo "Kafka Server started") &
exec "${java[@]}" kafka.Kafka "$dir/server.properties"
