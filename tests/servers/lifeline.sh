#!/usr/bin/env bash
# lifeline.sh COMMAND...: becomes COMMAND, which is killed when the standard input closes. A test holds the other
# end, and the kernel closes it however the test ends.
set -euo pipefail
exec 3<&0 </dev/null
(
  while read -r -u 3 _; do :; done
  kill -9 $$
) >/dev/null 2>&1 &
exec "$@" 3<&-
