# Prints the most frequent error, how often it came, and when it came first.
# Lines: time, level, component, message.
set -eu
grep ' ERROR ' "$1" | awk '
    {
        first = $1
        $1 = ""; $2 = ""
        sub(/^ +/, "")
        if (!(($0) in seen)) start[$0] = first
        seen[$0]++
    }
    END {
        for (text in seen) if (seen[text] > most) { most = seen[text]; worst = text }
        printf "%d times since %s: %s\n", most, start[worst], worst
    }'
