#!/bin/sh
# Says what a proposed plan changes, and fails if it must not follow the one that it replaces.
#
#   review-plan.sh FILE BASE
#
# FILE is the plan in this working tree, from the root of the repository; BASE is the branch or
# commit that it would be merged into. Exit codes are those of `loom`: 2 if FILE is no plan, or is
# not written as `loom plan` writes it; 3 if it must not follow the plan of BASE.
set -eu
plan=${1:?"usage: review-plan.sh FILE BASE"}
base=${2:?"usage: review-plan.sh FILE BASE"}

loom plan check --canonical "$plan"

if ! git cat-file -e "$base:$plan" 2>/dev/null; then
    echo "$plan is new: there is no plan in $base that it follows"
elif git diff --quiet "$base" -- "$plan"; then
    echo "$plan is the plan of $base"
else
    git show "$base:$plan" | loom plan diff - "$plan"
fi
