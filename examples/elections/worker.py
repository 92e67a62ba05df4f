# Runs ./step again and again while this machine holds the lock "worker"; the other machines wait. The file dlock.py of
# examples/clients is beside this file. Each step gets the token of the lock, and ends within the time of --grace.
#
# Crash: if this program ends, the lock is free at once. If the machine crashes, the next one works when the lease has
#   ended, here at most 32 s later. ./step must be able to handle a step that was interrupted.
# Database unavailable: valid() becomes false in time, and the present step ends before another machine works.
# Rollback: stop this program; another machine works at once.
import subprocess, sys
from dlock import Lock, LockLost

try:
    with Lock("worker", ["--ttl=30s", "--grace=5s", *sys.argv[1:]]) as lock:
        while lock.valid():
            if subprocess.run(["./step", str(lock.token)], timeout=5).returncode != 0:
                break  # there is no more work
except LockLost as lost:
    sys.exit(f"worker: {lost}")
