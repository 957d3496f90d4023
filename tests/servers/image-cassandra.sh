#!/bin/bash
# Runs the stand-in image of cassandra: one node, which hears clients on each of its addresses.
set -euo pipefail
address="$(hostname -i)"
address="${address%% *}"
exec bash /srv/cassandra.sh /srv/lib /tmp/cassandra 9042 "$address" "$address" 0.0.0.0
