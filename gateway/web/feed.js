// The gateway's data: a snapshot on demand, and the feed of summaries. fetch instead of EventSource, because only
// fetch can carry the admin key.

const LONGEST_WAIT_MS = 8000;
const SILENCE_MS = 30000; // the feed sends a comment every ten seconds

export class Refused extends Error {
  constructor(status) {
    super(`HTTP ${status}`);
    this.status = status;
  }
}

function headers(key, more = {}) {
  return key ? { ...more, authorization: `Bearer ${key}` } : more;
}

export async function snapshot(key) {
  const reply = await fetch("/admin/status", { headers: headers(key), cache: "no-store", signal: AbortSignal.timeout(8000) });
  if (!reply.ok) throw new Refused(reply.status);
  return reply.json();
}

// Follow the feed until `signal` ends it or the gateway refuses: told.event(type, data), told.open(), told.lost().
export async function follow(key, newest, told, signal) {
  let last = "";
  let wait = 500;
  while (!signal.aborted) {
    const stop = new AbortController();
    let alarm = setTimeout(() => stop.abort(), SILENCE_MS);
    try {
      const reply = await fetch(`/admin/events?newest=${newest}`, {
        headers: headers(key, last ? { "last-event-id": last } : {}),
        cache: "no-store",
        signal: AbortSignal.any([stop.signal, signal]),
      });
      if ([401, 403, 404].includes(reply.status)) throw new Refused(reply.status);
      if (!reply.ok) throw new Error(`HTTP ${reply.status}`);
      told.open();
      wait = 500;
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(alarm);
        alarm = setTimeout(() => stop.abort(), SILENCE_MS);
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) last = dispatch(block, told) || last;
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
    } finally {
      clearTimeout(alarm);
      stop.abort();
    }
    if (signal.aborted) return;
    told.lost();
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(LONGEST_WAIT_MS, wait * 2);
  }
}

function dispatch(block, told) {
  let type = "";
  let data = "";
  let id = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) type = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
    else if (line.startsWith("id: ")) id = line.slice(4);
  }
  if (data) told.event(type, JSON.parse(data));
  return id;
}
