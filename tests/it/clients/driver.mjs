// Runs commands of the test tests/it/clients.rs on two locks of the example client. Arguments: NAME NAME OPTION...
import { createInterface } from 'node:readline';
import { Lock } from '../../../examples/clients/dlock.mjs';

const [first, second, ...options] = process.argv.slice(2);
const locks = { '': new Lock(first, options), '2:': new Lock(second, options) };
for (const [prefix, lock] of Object.entries(locks)) {
  lock.on('lost', () => console.log(`${prefix}lost`));
}

async function run(lock, command, seconds) {
  switch (command) {
    case 'lock':
      await lock.lock();
      return 'ok';
    case 'try':
      return lock.tryLock(Number(seconds));
    case 'unlock':
      return lock.unlock().then(() => 'ok', (error) => `error: ${error.message}`);
    case 'valid':
      return lock.valid();
    case 'token':
      return lock.token;
    default:
      return process.exit();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const prefix = line.startsWith('2:') ? '2:' : '';
  const [command, seconds] = line.slice(prefix.length).split(' ');
  console.log(String(await run(locks[prefix], command, seconds)));
}
