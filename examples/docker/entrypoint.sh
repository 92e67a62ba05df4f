#!/bin/sh
# The entrypoint of an image. One container of this release runs ./migrate.sh. The other containers
# wait until ./migrate.sh has succeeded. The application then replaces this script as process 1.
# RELEASE is the tag of the image. ./migrate.sh does not get DLOCK_URL, because it does not call dlock.
#
# Crash: if the container that runs ./migrate.sh dies, its lease expires, and the next container
#   normally runs ./migrate.sh at most 32 s after the crash. If ./migrate.sh fails, its container
#   exits with the same status, and the next container in the queue runs ./migrate.sh immediately.
# Database unavailable: if dlock cannot renew the lease in time, it stops ./migrate.sh before the
#   lease expires, and the container exits with 76. If the database is unavailable when dlock starts,
#   dlock retries for a minute, and the container then exits with 69. In both cases, Docker starts
#   the container again if its restart policy allows this. The application does not start before a
#   migration has succeeded.
# Rollback: an older RELEASE has already succeeded, so ./migrate.sh does not run, and the
#   application starts with the database of the newer release.
# docker stop: ./migrate.sh gets SIGTERM. When ./migrate.sh is dead, dlock releases the lock. The
#   application does not start. If ./migrate.sh runs for longer than the timeout of docker stop,
#   Docker kills the container, and the lease expires.
set -eu

# A shell that is process 1 does not forward signals. The trap forwards SIGTERM and SIGINT to dlock.
# A trap cannot run while a foreground command runs, so dlock runs in the background.
stopped=
trap 'stopped=yes; kill "$!" || :' TERM INT
dlock exec init --once="$RELEASE" --hide-credentials -- ./migrate.sh &

status=0
wait "$!" || status=$?
# If dlock is still running, a signal has interrupted the wait. Wait until dlock exits.
while kill -0 "$!" 2>/dev/null; do
    status=0
    wait "$!" || status=$?
done
[ "$status" -eq 0 ] || exit "$status"
[ -z "$stopped" ] || exit 143

trap - TERM INT
exec "$@"
