#!/bin/sh
# A deploy script that locks itself: however many people start it, on whatever machines, one at a time deploys.
#   DLOCK_URL=... ./self-locking.sh 42
#
# Crash: the lease lapses; at most 32 s later the next in line deploys, and has to cope with what it
#   finds half done.
# Database lost: the deployment is stopped before the lease ends, with 76, wherever it is; the lock cannot
#   promise any more that nobody else deploys.
# Rollback: is a deployment like any other, under the same lock: ./self-locking.sh 41
set -eu

# DLOCK_TOKEN alone does not do: dlock may have started us under another action.
[ -n "${DLOCK_TOKEN-}" ] && [ "${DLOCK_ACTION-}" = deploy ] ||
    exec dlock exec --action deploy --wait 10m --note "deploy $*" -- sh "$0" "$@"

echo "deploying $1, token $DLOCK_TOKEN"
./switch.sh "$1"
echo "deployed $1"
