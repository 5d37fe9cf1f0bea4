// Asks for the status each second, and shows it with what has changed since. What others chose (names, causes) is text and never markup.
'use strict';
const KEPT = 60;
const history = new Map();
let before = null;

const cell = (value, kind) => {
  const cell = document.createElement('td');
  if (value instanceof Node) cell.append(value); else cell.textContent = value;
  if (kind) cell.className = kind;
  return cell;
};
const number = value => cell(value, 'n');
// Programs and net cores say what they like of themselves.
const list = value => Array.isArray(value) ? value : [];
const rows = (id, list, none) => {
  const body = document.querySelector('#' + id + ' tbody');
  const width = body.parentNode.querySelectorAll('th').length;
  const made = list.map(cells => {
    const row = document.createElement('tr');
    row.append(...cells);
    return row;
  });
  if (!made.length) {
    const empty = cell(none, 'none');
    empty.colSpan = width;
    const row = document.createElement('tr');
    row.append(empty);
    made.push(row);
  }
  body.replaceChildren(...made);
};
const short = value => {
  if (value < 1000) return String(Math.round(value));
  const power = Math.min(Math.floor(Math.log10(value) / 3), 4);
  return (value / 1000 ** power).toPrecision(3) + ' kMGT'[power];
};
const age = seconds => seconds < 120 ? seconds + ' s' : seconds < 7200 ? Math.floor(seconds / 60) + ' min' : Math.floor(seconds / 3600) + ' h';
const bytes = value => value === undefined || value === null ? '' : short(value) + 'B';
const sums = direction => direction.counts.reduce((sum, count) => {
  if (count.dropped) sum.drops += count.frames; else { sum.packets += count.frames; sum.bits += count.bytes * 8; }
  return sum;
}, { packets: 0, bits: 0, drops: 0 });

const line = values => {
  const space = 'http://www.w3.org/2000/svg', svg = document.createElementNS(space, 'svg');
  const most = Math.max(...values, 1), shape = document.createElementNS(space, 'polyline');
  svg.setAttribute('viewBox', `0 0 ${KEPT} 20`);
  svg.setAttribute('preserveAspectRatio', 'none');
  shape.setAttribute('points', values.map((value, at) => `${at + KEPT - values.length},${19 - 18 * value / most}`).join(' '));
  svg.append(shape);
  return svg;
};

// Those of the daemon, with what each says itself; then those by hand.
const showNetCores = (status, rate) => {
  const told = new Map(list(status.net_cores).map(core => [core.process, core]));
  const past = new Map(list(before && before.net_cores).map(core => [core.process, core]));
  const daemons = list(status.net_cores_started), own = new Set(daemons.map(core => core.process));
  const busy = core => core && past.has(core.process) ? Math.round(rate(core.busy_ns, past.get(core.process).busy_ns) / 1e7) + ' %' : '';
  const services = core => list(core && core.cards).map(card => card.service ? card.service.name : '').filter(name => name).join(' ');
  rows('net_cores', [...daemons.map(core => [cell(core.processor),
    cell(core.is_failing ? 'dies at each start' : core.process || 'starts', core.is_failing ? 'bad' : ''), number(age(core.uptime_s)),
    number(busy(told.get(core.process))), cell(core.restarts, core.restarts ? 'n bad' : 'n'), cell([...new Set(core.vnics)].join(' ')),
    cell(services(told.get(core.process)))]),
  ...[...told.values()].filter(core => !own.has(core.process)).map(core => [cell(core.processor === null ? 'by hand' : core.processor + ', by hand'),
    cell(core.process), number(age(core.uptime_s)), number(busy(core)), number(''), cell(''), cell(services(core))])], 'There are no net cores.');
};

const show = (status, seconds) => {
  const key = vnic => vnic.vnic + ' ' + vnic.mac;
  const earlier = new Map(list(before && before.vnics).map(vnic => [key(vnic), vnic]));
  const rate = (now, then) => seconds > 0 && then !== undefined ? Math.max(0, now - then) / seconds : 0;
  const drops = [], cards = [], seen = new Set();
  for (const vnic of list(status.vnics)) {
    const then = earlier.get(key(vnic));
    const rates = ['transmit', 'receive'].map(name => {
      const now = sums(vnic[name]), past = then && sums(then[name]);
      return ['packets', 'bits', 'drops'].map(what => rate(now[what], past && past[what]));
    });
    for (const name of ['transmit', 'receive']) for (const count of vnic[name].counts.filter(count => count.dropped)) {
      const past = then && then[name].counts.find(other => other.cause == count.cause);
      const each = rate(count.frames, then && (past ? past.frames : 0));
      drops.push([cell(vnic.vnic), cell(vnic.name), cell(name), cell(count.cause), number(count.frames), number(short(each))]);
    }
    const kept = history.get(key(vnic)) || [];
    kept.push(rates[0][1]);
    history.set(key(vnic), kept.slice(-KEPT));
    seen.add(key(vnic));
    const figures = rates.flatMap(([packets, bits, lost]) => [number(short(packets)), number(short(bits)), cell(short(lost), lost ? 'n bad' : 'n')]);
    const addresses = vnic.addresses.map(([address, length]) => address + '/' + length).join('\n');
    cards.push([cell(vnic.vnic), cell(vnic.name), cell(vnic.user), cell(addresses), cell(vnic.interface + ', ' + vnic.driver),
      ...figures, cell(line(history.get(key(vnic))))]);
  }
  for (const gone of [...history.keys()].filter(key => !seen.has(key))) history.delete(gone);
  rows('cards', cards, status.error ? 'Not known.' : 'Nobody has a card.');
  rows('drops', drops, status.error ? 'Not known.' : 'No frame was dropped.');
  showNetCores(status, rate);
  rows('programs', list(status.programs).map(program => [cell(program.program), cell(list(program.addresses).join(' ')), number(program.processes),
    number(program.sockets), number(program.connections), number(program.fallbacks)]), 'No program runs that this page may ask.');
  rows('disks', list(status.disks).map(disk => [cell(disk.disk), cell(disk.path), cell(disk.why ? disk.state + ': ' + disk.why : disk.state),
    number(bytes(disk.bytes)), number(bytes(disk.free_bytes)), number(disk.area_count)]), status.error ? 'Not known.' : 'The daemon has no disk.');
};

const state = (text, kind) => {
  const place = document.getElementById('state');
  place.textContent = text;
  place.className = kind;
};
// A status is asked for by another process, in its own time: the same may come twice, and an old one, if somebody keeps it waiting.
let came = performance.now();
const look = async () => {
  try {
    const answer = await fetch('status.json', { cache: 'no-store' });
    if (!answer.ok) throw new Error('the server of this page says ' + answer.status);
    const status = await answer.json();
    const seconds = before ? (status.after_ms - before.after_ms) / 1000 : 0;
    if (before && seconds == 0) {
      const old = (performance.now() - came) / 1000;
      if (old > 5) state(`this is what there was ${Math.round(old)} s ago`, 'bad');
      return;
    }
    show(status, seconds > 0 ? seconds : 0);
    [before, came] = [status, performance.now()];
    if (status.error) return state(status.error, 'bad');
    const { served, refused, cut_off } = status.requests;
    state(`version ${status.daemon}, up ${age(status.uptime_s)}; ${status.sessions} connections` +
      (served ? `; ${served} requests served, ${refused} refused, ${cut_off} peers cut off` : '') +
      (status.uplink ? `; uplink ${status.uplink}` : ''), '');
  } catch (error) {
    state(error.message, 'bad');
    before = null;
  }
};
look();
setInterval(look, 1000);
