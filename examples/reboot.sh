#!/bin/sh
# Reboots this host while at most one other host reboots. Run it as root from a timer on every host.
#   DLOCK_URL=... ./reboot.sh
# ./reboot-and-wait.sh reboots the host and is started again after the boot, or it reboots another host and waits for it.
#
# Crash: the lease expires after the ttl, and the next host reboots. The ttl is longer than a reboot, so a host that
#   does not return in time no longer counts, and an operator sees its last run as lost in dlock history reboot.
# Database unavailable: no host begins to reboot. dlock retries for a minute and then exits with 69. If the database
#   fails during the run, dlock stops the command before the lease expires, and exits with 76.
# Rollback: to let no host reboot, run dlock release reboot --pause 1h
set -eu

exec dlock exec reboot --slots 2 --ttl 15m -- ./reboot-and-wait.sh "$@"
