#!/bin/sh
# A deploy script that locks itself. Only one deployment runs at a time, even if several users or
# machines start deployments.
#   DLOCK_URL=... ./self-locking.sh 42
# The part of the script below the lock does not get DLOCK_URL.
#
# Crash: the lease expires, and the next waiter normally deploys at most 32 s after the crash. The
#   script must be able to handle a half-finished deployment.
# Database unavailable: if dlock cannot renew the lease in time, it stops the deployment before the
#   lease expires, and exits with 76. The deployment remains incomplete.
# Rollback: a rollback is a deployment under the same lock: ./self-locking.sh 41
set -eu

# Testing only DLOCK_TOKEN is not enough, because dlock may run this script under another action.
[ -n "${DLOCK_TOKEN-}" ] && [ "${DLOCK_ACTION-}" = deploy ] ||
    exec dlock exec deploy --wait 10m --note "deploy $*" --hide-credentials -- sh "$0" "$@"

echo "deploying $1, token $DLOCK_TOKEN"
./switch.sh "$1"
echo "deployed $1"
