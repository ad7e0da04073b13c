# Puts the three findings together. Stdin is one line of JSON without quotes inside its strings:
# {"input":{"title":T},"after":{"logs":L,"metrics":M,"queries":Q}}
set -eu
awk -F'"' '
    {
        print $6
        for (i = 10; i + 2 <= NF; i += 4) printf "- %s: %s\n", $i, $(i + 2)
    }'
