#!/bin/sh
# Promotes this machine when it becomes the leader, and demotes it when it no longer leads. Start it on each candidate:
#   dlock exec app --holder "$ADDRESS" --grace 20s --ttl 1m -- ./lead.sh
# --holder is the address that "dlock leader app" prints. ./promote and ./demote are yours.
#
# Crash: ./demote does not run on a machine that crashes. The next candidate is promoted when the lease has ended, at most
#   62 s later, so ./promote must also work beside a leader that has crashed, for example by taking its address.
# Database unavailable: if dlock cannot renew the lease in time, it sends SIGTERM, and ./demote runs. A ./demote that takes
#   longer than --grace is killed, because the next leader may be promoted then.
# Rollback: stop dlock on this machine; the next candidate is promoted after ./demote has ended.
set -eu

sleep=
trap '[ -z "$sleep" ] || kill "$sleep" 2>/dev/null || :; ./demote' EXIT
trap 'exit 143' HUP INT TERM

./promote
sleep infinity &
sleep=$!
wait "$sleep"
