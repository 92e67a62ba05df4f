#!/bin/sh
# Makes a backup beside other backups, or restores one while nobody else uses the database.
#   DLOCK_URL=... ./backup.sh backup
#   DLOCK_URL=... ./backup.sh restore FILE
# A restore waits for the present backups, and later backups wait for the restore.
#
# Crash: the lease of the dead backup expires, and a restore that waits normally begins at most 32 s after the crash.
# Database unavailable: if dlock cannot renew the lease in time, it stops the command before the lease expires, and
#   exits with 76. A restore then remains incomplete.
# Rollback: restore an earlier file.
set -eu

case $1 in
backup) exec dlock exec db --shared -- ./backup-job.sh ;;
restore) exec dlock exec db --wait 2h --note "restore $2" -- ./restore-job.sh "$2" ;;
esac
