#!/bin/sh
# A deploy script that locks itself: one deployment runs at a time, regardless of the number of
# users and machines that start it.
#   DLOCK_URL=... ./self-locking.sh 42
#
# Crash: the lease expires, and the next waiter deploys at most 32 s later. It must cope with a
#   half-finished deployment.
# Database lost: the deployment is stopped at any point before its lease expires, and dlock exits
#   with 76, because the lock can no longer exclude another deployment.
# Rollback: a deployment like any other, under the same lock: ./self-locking.sh 41
set -eu

# DLOCK_TOKEN alone is not enough: dlock may have started this script under another action.
[ -n "${DLOCK_TOKEN-}" ] && [ "${DLOCK_ACTION-}" = deploy ] ||
    exec dlock exec --action deploy --wait 10m --note "deploy $*" -- sh "$0" "$@"

echo "deploying $1, token $DLOCK_TOKEN"
./switch.sh "$1"
echo "deployed $1"
