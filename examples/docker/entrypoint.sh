#!/bin/sh
# The entrypoint of an image. One container of this release runs ./migrate.sh; the others wait until
# it has succeeded. The application then replaces this script as process 1. RELEASE is the image's
# tag.
#
# Crash: if the container that migrates dies, its lease expires, and the next container migrates at
#   most 32 s later. If ./migrate.sh fails, this container exits with the same status, and the next
#   container in the queue migrates at once.
# Database lost: the migration is stopped before its lease expires, and the container exits with 76.
#   At the start dlock retries for a minute, and the container exits with 69. The restart policy
#   tries again. The application does not start without a successful migration.
# Rollback: an older RELEASE has already succeeded, so nothing is migrated, and the application
#   starts on the newer database.
# docker stop: ./migrate.sh gets SIGTERM. When it is dead, dlock releases the lock. The application
#   does not start.
set -eu

# A shell that is process 1 does not forward signals. The trap forwards them, but it cannot run
# while a foreground command runs, so dlock runs in the background.
stopped=
trap 'stopped=yes; kill "$!" || :' TERM INT
dlock exec --action init --once="$RELEASE" -- ./migrate.sh &

status=0
wait "$!" || status=$?
# A signal has interrupted the wait, and dlock is ending.
while kill -0 "$!" 2>/dev/null; do
    status=0
    wait "$!" || status=$?
done
[ "$status" -eq 0 ] || exit "$status"
[ -z "$stopped" ] || exit 143

trap - TERM INT
exec "$@"
