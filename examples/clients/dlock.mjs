// A lock that `dlock hold` holds for this program, at most until its end. Needs Linux, Node.js 18, and dlock in PATH.
//   const lock = new Lock('report', ['--ttl=6s']);
//   lock.once('lost', stop);
//   await lock.lock();
//   try { while (lock.valid()) await workForAMoment(lock.token); } finally { await lock.unlock(); }
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// Node.js cannot read CLOCK_BOOTTIME. /proc/uptime is this clock in seconds, rounded down to 10 ms.
const nowMs = () => Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000 + 10;
// LXCFS replaces /proc/uptime in some containers, but not the time at which a process has started, in units of 10 ms.
const started = execFileSync('cat', ['/proc/self/stat'], { encoding: 'utf8' }).split(' ')[21];
if (nowMs() < Number(started) * 10) throw new Error('/proc/uptime is not CLOCK_BOOTTIME');

export class Lock extends EventEmitter {
  #command; #grant;
  constructor(name, options = []) {
    super();
    this.#command = ['hold', name, '--json', ...options];
  }
  /** Waits until the lock is held. */
  lock() { return this.#start('--wait=forever'); }
  /** Resolves to false if others held the lock for this time. */
  tryLock(seconds = 0) { return this.#start(`--wait=${Math.round(seconds * 1000)}ms`); }
  /** Returns true if the lock is held. Only reads the clock, so this is right even if dlock is frozen or dead. */
  valid() { return this.#grant !== undefined && !this.#grant.isLost && nowMs() < this.#grant.stopAtMs; }
  /** Releases the lock. Throws an error if the lock was lost before the server confirmed its release. */
  async unlock() {
    const grant = this.#grant;
    this.#grant = undefined;
    grant.dlock.stdin.end();
    if ((await grant.status) !== 0 || grant.isLost) throw new Error('the lock was lost');
  }
  #start(wait) {
    // With a session of its own, dlock does not get the Ctrl-C that stops this program.
    const dlock = spawn('dlock', [...this.#command, wait], { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    const grant = { dlock, status: new Promise((resolve) => dlock.on('close', resolve)), isLost: false };
    const end = (isReleased) => {
      if (grant.isEnded) return;
      [grant.isEnded, grant.isLost] = [true, !isReleased];
      if (grant.isLost && this.#grant === grant) this.emit('lost');
    };
    return new Promise((resolve, reject) => {
      createInterface({ input: dlock.stdout }).on('close', () => end(false)).on('line', (line) => {
        const event = JSON.parse(line);
        grant.stopAtMs = event.stop_at_ms ?? grant.stopAtMs;
        if (['lost', 'released'].includes(event.event)) end(event.event === 'released');
        if (event.event !== 'granted') return;
        [this.#grant, this.token] = [grant, event.token];
        resolve(true);
      });
      dlock.on('error', reject).on('close', (status) => {
        if (status === 75 && wait !== '--wait=forever') resolve(false);
        reject(new Error(`dlock ended with status ${status}`));
      });
    });
  }
}
