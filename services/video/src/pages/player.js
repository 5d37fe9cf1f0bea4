"use strict";
// A player of HLS with fragments of CMAF, for browsers that don't play HLS by themselves: it reads the playlists, and feeds the fragments
// to Media Source Extensions. The quality follows the rate at which the last fragments came. It fetches AHEAD_S seconds ahead of the
// picture, and tries again after a failure.

const AHEAD_S = 20;
const BEHIND_S = 30;
const RETRY_MS = 1000;
const RETRIES = 5;
// A quality is chosen if it needs less than this of the measured rate.
const SAFETY = 0.7;

const video = document.getElementById("film");
const state = document.getElementById("state");
const say = (text) => { state.textContent = text; };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Bits a second, as measured on the last fragments; 0: nothing was measured.
let rate = 0;

async function load(address, how) {
  for (let attempt = 0; ; attempt++) {
    try {
      const began = performance.now();
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
      const body = await answer[how]();
      const bytes = body.byteLength ?? 0;
      if (bytes > 16384) {
        const now = bytes * 8000 / Math.max(performance.now() - began, 1);
        rate = rate ? 0.7 * rate + 0.3 * now : now;
      }
      return body;
    } catch (error) {
      if (attempt === RETRIES) throw error;
      say(`trying again: ${error.message}`);
      await sleep(RETRY_MS);
    }
  }
}

// NAME=VALUE,… of a tag.
function attributes(text) {
  const found = {};
  for (const [, name, quoted, plain] of text.matchAll(/([A-Z0-9-]+)=(?:"([^"]*)"|([^,]*))/g)) found[name] = quoted ?? plain;
  return found;
}

// A media playlist: the fragment all others need, and the others with their times.
async function mediaPlaylist(address) {
  const lines = (await load(address, "text")).split(/\r?\n/);
  const list = { first: null, fragments: [], seconds: 0 };
  let duration = 0;
  for (const line of lines) {
    if (line.startsWith("#EXT-X-MAP:")) list.first = new URL(attributes(line).URI, address).href;
    else if (line.startsWith("#EXTINF:")) duration = parseFloat(line.slice(8));
    else if (line && !line.startsWith("#")) {
      list.fragments.push({ address: new URL(line, address).href, start: list.seconds, end: list.seconds + duration });
      list.seconds += duration;
    }
  }
  return list;
}

// The master playlist: qualities of the picture, lowest first, and the sound beside it.
async function masterPlaylist(address) {
  const lines = (await load(address, "text")).split(/\r?\n/);
  const master = { qualities: [], sound: null };
  lines.forEach((line, index) => {
    if (line.startsWith("#EXT-X-MEDIA:")) {
      const media = attributes(line);
      if (media.TYPE === "AUDIO" && media.URI) master.sound ??= new URL(media.URI, address).href;
    } else if (line.startsWith("#EXT-X-STREAM-INF:")) {
      const { BANDWIDTH, CODECS } = attributes(line);
      const codecs = (CODECS ?? "avc1.640028,mp4a.40.2").split(",");
      master.qualities.push({ address: new URL(lines[index + 1], address).href, rate: Number(BANDWIDTH), codecs });
    }
  });
  master.qualities.sort((one, other) => one.rate - other.rate);
  return master;
}

const isSound = (codec) => /^(mp4a|ac-3|ec-3|opus|flac)/i.test(codec);

// What one SourceBuffer plays: one of several lists, from where the picture is.
class Track {
  constructor(source, kind, codecs, lists) {
    this.buffer = source.addSourceBuffer(`${kind}/mp4; codecs="${codecs}"`);
    this.lists = lists;
    this.loaded = null;
  }

  done() {
    return new Promise((done, failed) => {
      this.buffer.addEventListener("updateend", done, { once: true });
      this.buffer.addEventListener("error", () => failed(new Error("a fragment can't be played")), { once: true });
    });
  }

  async append(bytes) {
    const done = this.done();
    this.buffer.appendBuffer(bytes);
    await done;
  }

  // Where what is buffered from `time` on ends.
  end(time) {
    const ranges = this.buffer.buffered;
    for (let index = 0; index < ranges.length; index++) {
      if (ranges.start(index) <= time + 0.3 && time < ranges.end(index)) return ranges.end(index);
    }
    return time;
  }

  choose() {
    const fits = this.lists.filter((list) => list.rate <= rate * SAFETY);
    return fits.length ? fits[fits.length - 1] : this.lists[0];
  }

  // One fragment more, if it is time for it. Whether all are there.
  async step() {
    const now = video.currentTime;
    const end = this.end(now);
    const list = this.choose();
    const playlist = list.playlist ??= await mediaPlaylist(list.address);
    const next = playlist.fragments.find((fragment) => fragment.end > end + 0.1);
    if (!next) return true;
    if (end - now > AHEAD_S) return false;
    if (this.loaded !== list) {
      if (playlist.first) await this.append(await load(playlist.first, "arrayBuffer"));
      this.loaded = list;
    }
    const bytes = await load(next.address, "arrayBuffer");
    await this.append(bytes);
    if (now > BEHIND_S && this.buffer.buffered.length && this.buffer.buffered.start(0) < now - BEHIND_S) {
      const done = this.done();
      this.buffer.remove(0, now - BEHIND_S);
      await done;
    }
    return false;
  }

  async run(source) {
    for (;;) {
      const isWhole = await this.step();
      this.isWhole = isWhole;
      if (isWhole && tracks.every((track) => track.isWhole) && source.readyState === "open") source.endOfStream();
      await sleep(isWhole || this.end(video.currentTime) - video.currentTime > AHEAD_S ? 250 : 0);
    }
  }
}

let tracks = [];

async function play() {
  const address = new URL("master.m3u8", location.href).href;
  if (!window.MediaSource) {
    if (!video.canPlayType("application/vnd.apple.mpegurl")) throw new Error("this browser plays neither HLS nor fragments");
    video.src = address;
    return;
  }
  const { qualities, sound } = await masterPlaylist(address);
  if (!qualities.length) throw new Error("the playlist has no quality");
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await new Promise((open) => source.addEventListener("sourceopen", open, { once: true }));
  const codecs = qualities[0].codecs;
  const [heard, seen] = [codecs.filter(isSound), codecs.filter((codec) => !isSound(codec))];
  const first = await mediaPlaylist(qualities[0].address);
  qualities[0].playlist = first;
  source.duration = first.seconds;
  if (sound) {
    if (seen.length) tracks.push(new Track(source, "video", seen.join(","), qualities));
    tracks.push(new Track(source, "audio", heard.join(",") || "mp4a.40.2", [{ address: sound, rate: 0 }]));
  } else {
    tracks.push(new Track(source, seen.length ? "video" : "audio", codecs.join(","), qualities));
  }
  tracks.forEach((track) => track.run(source).catch((error) => say(error.message)));
  say("");
}

video.addEventListener("playing", () => say(""));
video.addEventListener("waiting", () => say("waiting for more"));
play().catch((error) => say(error.message));
if (new URLSearchParams(location.search).has("play")) {
  video.muted = true;
  video.addEventListener("canplay", () => video.play(), { once: true });
}
