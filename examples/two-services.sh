#!/bin/sh
# Deploys a change that two services need, while nobody else deploys one of them.
#   DLOCK_URL=... ./two-services.sh 42
# dlock acquires both locks or none, always in the same order. Another deployment may use only one of the locks.
#
# Crash: both leases expire, and the next waiter normally deploys at most 32 s after the crash. The
#   script must be able to handle a half-finished deployment.
# Database unavailable: if dlock cannot renew one of the leases in time, it stops the deployment before
#   the lease expires, and exits with 76. The deployment remains incomplete.
# Rollback: a rollback is a deployment under the same locks: ./two-services.sh 41
set -eu

exec dlock exec -a api -a web --wait 10m --note "deploy $*" --hide-credentials -- ./switch.sh "$@"
