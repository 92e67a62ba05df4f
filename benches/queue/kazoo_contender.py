"""A contender with kazoo: acquires a lock on ZooKeeper, holds it for a time, and records when.

Usage: kazoo_contender.py ADDRESS NAME SHAPE READY LOG LABEL HOLD

SHAPE is exclusive, shared or the size of a semaphore. READY is a file that is created when the contender is connected and is
about to acquire the lock. HOLD is a time in microseconds, or a fifo that is read until it is closed. LOG gets one line: the
label, the start and the end, in nanoseconds of CLOCK_MONOTONIC.
"""

import sys
import time

from kazoo.client import KazooClient


def now():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def hold(until):
    if until.isdigit():
        time.sleep(int(until) / 1e6)
    else:
        with open(until, "rb") as fifo:
            fifo.read()


def main():
    address, name, shape, ready, log, label, until = sys.argv[1:]
    client = KazooClient(address)
    client.start()
    if shape == "exclusive":
        lock = client.WriteLock("/" + name, label)
    elif shape == "shared":
        lock = client.ReadLock("/" + name, label)
    else:
        lock = client.Semaphore("/" + name, label, max_leases=int(shape))
    open(ready, "w").close()
    lock.acquire()
    start = now()
    hold(until)
    end = now()
    with open(log, "a") as file:
        file.write(f"{label} {start} {end}\n")
    lock.release()
    client.stop()


main()
