"""Runs commands of the test tests/it/clients.rs on two locks of the example client. Arguments: NAME NAME OPTION..."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "clients"))
from dlock import Lock, LockLost


def run(lock, command, seconds):
    if command == "lock":
        lock.lock()
        return "ok"
    if command == "try":
        return "true" if lock.try_lock(float(seconds)) else "false"
    if command == "unlock":
        try:
            lock.unlock()
            return "ok"
        except LockLost as error:
            return f"error: {error}"
    if command == "valid":
        return "true" if lock.valid() else "false"
    if command == "token":
        return lock.token
    sys.exit()


locks = {
    prefix: Lock(name, sys.argv[3:], on_lost=lambda prefix=prefix: print(f"{prefix}lost", flush=True))
    for prefix, name in (("", sys.argv[1]), ("2:", sys.argv[2]))
}
for line in sys.stdin:
    prefix = "2:" if line.startswith("2:") else ""
    command, _, seconds = line.strip().removeprefix("2:").partition(" ")
    print(run(locks[prefix], command, seconds), flush=True)
