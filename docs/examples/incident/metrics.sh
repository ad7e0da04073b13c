# Prints since when the latency is above THRESHOLD_MS, and how far above.
# Columns: time, requests per second, p95 latency in ms.
set -eu
awk -F, -v limit="${THRESHOLD_MS:-500}" '
    NR == 1 { next }
    $3 <= limit { calm += $3; quiet++; next }
    !since { since = $1 }
    $3 > worst { worst = $3; at = $1 }
    END {
        if (!since) { print "latency never rose above " limit " ms"; exit }
        printf "p95 latency above %d ms since %s: %d ms before, %d ms at %s\n",
            limit, since, calm / quiet, worst, at
    }' "$1"
