"""A lock that `dlock hold` holds for this program, at most until its end. Needs Linux, Python 3.7, and dlock in PATH.
    with Lock("report", ["--ttl=6s"], on_lost=stop) as lock:  # stop() runs in another thread
        while lock.valid(): work_for_a_moment(lock.token)"""
import json, threading, time
from subprocess import PIPE, Popen

class LockLost(Exception): pass

class Lock:
    def __init__(self, name, options=(), on_lost=lambda: None):
        self.token, self._held, self._on_lost = None, False, on_lost
        self._command = ["dlock", "hold", name, "--json", *options]

    def lock(self):
        """Waits until the lock is held."""
        self._start("--wait=forever")
        return self

    def try_lock(self, seconds=0):
        """Returns False if others held the lock for this time."""
        return self._start(f"--wait={round(seconds * 1000)}ms")

    def valid(self):
        """Returns True if the lock is held. Only reads the clock, so this is right even if dlock is frozen or dead."""
        return self._held and time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 < self._stop_at_ms

    def unlock(self, *_):
        """Releases the lock. Raises LockLost if it was lost before the server confirmed the release."""
        self._held = False
        self._dlock.stdin.close()
        self._reader.join()
        if self._dlock.wait() != 0 or not self._released:
            raise LockLost("the lock was lost")
    __enter__, __exit__ = lock, unlock

    def _start(self, wait):
        # In a session of its own, dlock does not get the Ctrl-C that stops this program.
        dlock = Popen([*self._command, wait], stdin=PIPE, stdout=PIPE, start_new_session=True)
        events = map(json.loads, dlock.stdout)
        for event in events:
            if event["event"] == "granted":
                self.token, self._stop_at_ms = event["token"], event["stop_at_ms"]
                self._dlock, self._held, self._released = dlock, True, False
                self._reader = threading.Thread(target=self._read, args=[events], daemon=True)
                self._reader.start()
                return True
        if dlock.wait() == 75 and wait != "--wait=forever":
            return False
        raise RuntimeError(f"dlock ended with status {dlock.returncode}")

    def _read(self, events):
        for event in events:
            if event["event"] == "renewed":
                self._stop_at_ms = event["stop_at_ms"]
            if event["event"] in ("lost", "released"):
                self._released = event["event"] == "released"
                break
        if self._held:
            self._held = False
            self._on_lost()
