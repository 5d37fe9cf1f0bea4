// What memjs (binary protocol) and memcached (text protocol) are answered, a line for each call.
//
//   node clients.js PORT

const memjs = require('memjs');
const Memcached = require('memcached');

const port = process.argv[2];

const shown = (value) =>
  Buffer.isBuffer(value) ? `${value.length} bytes ${value.subarray(0, 32).toString('hex')}` : JSON.stringify(value);

const say = (...words) => console.log(...words);

async function askByMemjs() {
  const client = memjs.Client.create(`127.0.0.1:${port}`, { retries: 1, timeout: 10 });
  const ask = async (call, ...words) => {
    try {
      const answer = await client[call](...words);
      const [value, flags] = answer && answer.value !== undefined ? [answer.value, answer.flags] : [answer, null];
      say('memjs', call, words[0], shown(value), shown(flags));
    } catch (error) {
      say('memjs', call, words[0], 'error:', error.message);
    }
  };
  await client.flush();
  await ask('get', 'none');
  await ask('set', 'key', 'value', { expires: 100 });
  await ask('get', 'key');
  await ask('add', 'key', 'x', {});
  await ask('add', 'other', 'x', {});
  await ask('replace', 'other', 'yy', {});
  await ask('replace', 'none', 'yy', {});
  await ask('append', 'other', 'zz');
  await ask('prepend', 'other', 'aa');
  await ask('get', 'other');
  await ask('increment', 'number', 5, { initial: 7 });
  await ask('increment', 'number', 5, { initial: 7 });
  await ask('decrement', 'number', 100, { initial: 7 });
  await ask('touch', 'key', 50);
  await ask('delete', 'key');
  await ask('delete', 'key');
  await ask('set', 'large', Buffer.alloc(1_000_000, 'q'), {});
  await ask('get', 'large');
  const keys = [...Array(500).keys()].map((number) => `key${number}`);
  await Promise.all(keys.map((key) => client.set(key, `value of ${key}`, {})));
  const all = await Promise.all(keys.map((key) => client.get(key)));
  say('memjs', 'at once', all.filter(({ value }, number) => value.toString() === `value of ${keys[number]}`).length);
  client.close();
}

async function askByMemcached() {
  const client = new Memcached(`127.0.0.1:${port}`, { timeout: 10_000, retries: 0, poolSize: 4 });
  const answer = (call, ...words) =>
    new Promise((tell) => client[call](...words, (error, value) => tell([error ? error.message || error : null, value])));
  const ask = async (call, ...words) => say('memcached', call, words[0], shown(await answer(call, ...words)));
  await answer('flush');
  await ask('set', 'key', 'value', 100);
  await ask('get', 'key');
  await ask('set', 'object', { x: 1, y: [2, 3] }, 100);
  await ask('get', 'object');
  await ask('set', 'bytes', Buffer.from([0, 255, 13, 10]), 100);
  await ask('get', 'bytes');
  await ask('set', 'number', 17, 100);
  const [, { cas }] = await answer('gets', 'key');
  say('memcached', 'cas', shown(await answer('cas', 'key', 'newer', cas, 100)), shown(await answer('cas', 'key', 'no', cas, 100)));
  await ask('getMulti', ['key', 'number', 'none']);
  await ask('add', 'key', 'x', 100);
  await ask('add', 'other', 'x', 100);
  await ask('replace', 'other', 'y', 100);
  await ask('append', 'other', '1');
  await ask('prepend', 'other', '0');
  await ask('get', 'other');
  await ask('incr', 'number', 3);
  await ask('decr', 'number', 30);
  await ask('incr', 'none', 1);
  await ask('incr', 'other', 1);
  await ask('touch', 'other', 5);
  await ask('touch', 'none', 5);
  await ask('del', 'other');
  await ask('del', 'other');
  const keys = [...Array(500).keys()].map((number) => `key${number}`);
  await Promise.all(keys.map((key) => answer('set', key, `value of ${key}`, 0)));
  const [, values] = await answer('getMulti', keys);
  say('memcached', 'at once', keys.filter((key) => values[key] === `value of ${key}`).length);
  for (const call of ['version', 'settings', 'slabs', 'items', 'stats']) {
    const [error, value] = await answer(call);
    say('memcached', call, shown(error), value.length);
  }
  client.end();
}

(async () => {
  await askByMemjs();
  await askByMemcached();
  say('end');
})();
