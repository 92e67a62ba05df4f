#!/bin/sh
# Tells this machine who leads: runs ./use-leader with the label of the leader, or with an empty text if there is none.
#   DLOCK_URL=... ./follow.sh
#
# Crash: a leader that has crashed counts as the leader until its lease ends. If this script ends, a service manager starts
#   it again, and it begins with the present leader.
# Database unavailable: the present leader stands, dlock prints a message and tries again. A leader that can no longer renew
#   its lease stops by itself, so a request to it fails.
# Rollback: nothing to undo: the script changes nothing on the server.
set -eu

dlock leader app --follow | while IFS= read -r leader; do
    ./use-leader "$leader"
done
