#!/bin/sh
# The entrypoint of an image: one container of this release runs ./migrate.sh, the others wait for it to succeed;
# then the application takes this script's place as process 1. RELEASE is the image's tag.
#
# Crash: the container of the one that migrates dies. Its lease lapses, and the next container migrates,
#   at most 32 s later.
#   If ./migrate.sh fails, this container ends with its status and the next in line migrates at once.
# Database lost: the migration is stopped before the lease ends, the container ends with 76; at the start it
#   ends with 69 after a minute. The restart policy tries again. The application does not start meanwhile.
# Rollback: an older RELEASE has succeeded long ago: nothing is migrated, the application starts on the newer
#   database.
# docker stop: ./migrate.sh gets SIGTERM, the lock is released when it is dead, and the application does not start.
set -eu

# A shell that is process 1 passes no signal on by itself, and a command in front would keep it from doing so.
stopped=
trap 'stopped=yes; kill "$!" || :' TERM INT
dlock exec --action init --once="$RELEASE" -- ./migrate.sh &

status=0
wait "$!" || status=$?
# A signal has ended the wait, and dlock is about to end.
while kill -0 "$!" 2>/dev/null; do
    status=0
    wait "$!" || status=$?
done
[ "$status" -eq 0 ] || exit "$status"
[ -z "$stopped" ] || exit 143

trap - TERM INT
exec "$@"
