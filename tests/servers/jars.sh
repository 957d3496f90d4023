#!/usr/bin/env bash
# jars.sh kafka|cassandra|kafka-tools: prints the folder of these jars, and fetches them where they are not there yet.
# Ends with 2 where there is no Java 17 or no Maven: then there is nothing to run them, and a test may skip.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
pom="$here/pom-$1.xml"
version="$(sed -n 's|.*<server.version>\(.*\)</server.version>.*|\1|p' "$pom")"
cache="$(cd "$here/../.." && pwd)/target/servers"
jars="$cache/$1-$version"

java="$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' || true)"
if [ "${java:-0}" -lt 17 ]; then
  echo "no Java 17: apt-get install openjdk-17-jre-headless" >&2
  exit 2
fi
if [ ! -d "$jars" ]; then
  command -v mvn >/dev/null || { echo "no Maven: apt-get install maven" >&2; exit 2; }
  mkdir -p "$cache"
  # Into a folder of its own and then renamed: two processes may do this at once, and either may be killed.
  part="$(mktemp -d "$jars.XXXXXX")"
  trap 'rm -rf "$part"' EXIT
  mvn -q -B -f "$pom" dependency:copy-dependencies "-DoutputDirectory=$part/lib" >&2
  mv -T "$part/lib" "$jars" 2>/dev/null || [ -d "$jars" ]
fi
echo "$jars"
