#!/bin/sh
# A deploy script that locks itself. Only one deployment runs at a time, regardless of the number of
# users and machines that start a deployment.
#   DLOCK_URL=... ./self-locking.sh 42
#
# Crash: the lease expires, and the next waiter deploys at most 32 s after the crash. The script
#   must be able to handle a half-finished deployment.
# Database lost: without the database, dlock cannot exclude other deployments. Before the lease
#   expires, dlock stops the deployment, which remains incomplete, and exits with 76.
# Rollback: a rollback is a deployment under the same lock: ./self-locking.sh 41
set -eu

# A test of DLOCK_TOKEN alone is not enough, because dlock may run this script under another action.
[ -n "${DLOCK_TOKEN-}" ] && [ "${DLOCK_ACTION-}" = deploy ] ||
    exec dlock exec --action deploy --wait 10m --note "deploy $*" -- sh "$0" "$@"

echo "deploying $1, token $DLOCK_TOKEN"
./switch.sh "$1"
echo "deployed $1"
