# Prints the statement that took most of the time.
# Lines: time, milliseconds, statement.
set -eu
awk '
    {
        ms = $2
        $1 = ""; $2 = ""
        sub(/^ +/, "")
        total[$0] += ms; calls[$0]++; all += ms
    }
    END {
        for (text in total) if (total[text] > most) { most = total[text]; worst = text }
        printf "%d %% of the time in %d calls of: %s\n", 100 * most / all, calls[worst], worst
    }' "$1"
