// Sends one file by tus 1.0.0 (https://tus.io/protocols/resumable-upload) and goes on after whatever broke: the
// network, the server, the page. Only what another try cannot mend ends it.
"use strict";

const MIB = 1024 * 1024;
const SLICE = 32 * MIB;
const PROBE = MIB; // the first bytes after a failure: little enough that a refusal is heard before the connection ends
const QUIET = 60_000; // milliseconds without progress after which a connection counts as dead
const SETTLING = 600_000; // the same once all bytes are sent: the server makes sure that they are on its disk
const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;
const RATE_OVER = 8_000; // milliseconds over which the rate is measured
const ABANDONED = 8; // how often an upload is asked to end
const BEGINNINGS = 3; // how often an upload is begun anew without a byte between

// Why another try would be of no use, in words for people.
class Ended extends Error {}

// Another try may do better.
class Broken extends Error {}

// The server knows the upload no more.
class Gone extends Error {}

// What is remembered of uploads under way, so that the same file goes on after the page was closed or loaded again. A
// browser that keeps nothing for us starts from the beginning.
const memory = {
  mark: "thpdiag upload ",
  address: /^\/files\/[0-9a-f]{32}$/,

  key(file) {
    return this.mark + JSON.stringify([file.name, file.size, file.lastModified]);
  },

  find(file) {
    try {
      const address = localStorage.getItem(this.key(file)) ?? "";
      return this.address.test(address) ? address : "";
    } catch {
      return "";
    }
  },

  keep(file, address) {
    try {
      localStorage.setItem(this.key(file), address);
    } catch {}
  },

  drop(file) {
    try {
      localStorage.removeItem(this.key(file));
    } catch {}
  },

  // Files as they were known then: name, size, lastModified; with the address of the upload.
  all() {
    const found = [];
    try {
      for (const key of Object.keys(localStorage).filter((one) => one.startsWith(this.mark)).sort()) {
        const [name, size, lastModified] = JSON.parse(key.slice(this.mark.length));
        const file = { name: String(name), size: Number(size), lastModified: Number(lastModified) };
        const address = this.find(file);
        if (address) found.push({ file, address });
        else localStorage.removeItem(key);
      }
    } catch {}
    return found;
  },
};

// One request. `door` has `token`, what shows that the page is ours; `seen` gets the XMLHttpRequest before it is sent,
// `sent` how many bytes of the body are on their way. Rejected with Broken if there is no answer.
function ask(method, address, { door, headers = {}, body = null, seen = () => {}, sent = () => {} }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let timer = 0;
    const watch = (limit) => {
      clearTimeout(timer);
      timer = setTimeout(() => request.abort(), limit);
    };
    request.open(method, address);
    const all = { "Tus-Resumable": "1.0.0", "X-CSRF-Token": door.token, ...headers };
    for (const [name, value] of Object.entries(all)) request.setRequestHeader(name, value);
    if (body) {
      request.upload.addEventListener("progress", (event) => {
        watch(event.loaded < body.size ? QUIET : SETTLING);
        sent(Math.min(event.loaded, body.size));
      });
    }
    request.addEventListener("loadend", () => {
      clearTimeout(timer);
      if (request.status) resolve(request);
      else reject(new Broken(navigator.onLine ? "The server does not answer" : "This computer is offline"));
    });
    watch(QUIET);
    seen(request);
    request.send(body);
  });
}

// The sentence with which the server refuses: plain text, or the detail of a problem document.
function refusal(request) {
  const text = request.responseText.trim().slice(0, 300);
  if (!(request.getResponseHeader("Content-Type") ?? "").includes("json")) return text.includes("<") ? "" : text;
  try {
    return String(JSON.parse(text).detail ?? "");
  } catch {
    return "";
  }
}

// Throws unless the answer is that of a success.
function judge(request) {
  const status = request.status;
  if (status >= 200 && status < 300) return;
  if (status === 404 || status === 410) throw new Gone();
  if (status === 423) throw new Broken("The server is still busy with earlier data");
  if (status === 429) throw new Broken("The server asks to wait");
  if ([408, 409, 425].includes(status)) throw new Broken("The connection broke");
  if (status >= 500 && ![501, 505, 507].includes(status)) throw new Broken("The server cannot accept it at the moment");
  const told = refusal(request);
  const said = told ? `The server reports: ${told}.` : "";
  const words = {
    401: "You are signed out. Sign in again, then choose the same file: the upload resumes.",
    403: `You are not allowed to upload here. ${said}`,
    413: `The file is too large for this server. ${said}`,
    507: `The server has no room for this file. Ask its administrator to free some, then try again. ${said}`,
  };
  throw new Ended((words[status] ?? `The server does not accept this file. ${said || `It answered ${status}.`}`).trim());
}

// Has the server forget an upload, which it does not while it still waits for bytes of a request that was broken off.
// If that cannot be, the upload expires.
async function abandon(address, door) {
  for (let tries = 1; tries <= ABANDONED; tries += 1) {
    const answer = await ask("DELETE", address, { door }).catch(() => null);
    if (answer?.status !== 423) return;
    await new Promise((resolve) => setTimeout(resolve, FIRST_WAIT * tries));
  }
}

// `door` has `limit` in bytes, `token` and `renew()`, which gets a new token from the page; `told(transfer)` is called
// whenever something changed. States: waiting, sending, retrying, paused, done, failed, cancelled.
class Transfer {
  constructor(file, door, told) {
    this.file = file;
    this.door = door;
    this.told = told;
    this.address = memory.find(file);
    this.state = "waiting";
    this.words = "";
    this.offset = 0; // what the server has
    this.flying = 0; // what is on its way there
    this.known = false; // whether the offset is the server's word
    this.resumed = false;
    this.hopeless = false; // nothing can be done about the file
    this.rates = [];
    this.request = null;
    this.waking = null;
  }

  get sent() {
    return this.offset + this.flying;
  }

  // Bytes a second over the last seconds; 0 if there is no telling yet.
  get rate() {
    if (this.rates.length < 2) return 0;
    const [first, last] = [this.rates[0], this.rates.at(-1)];
    return Math.max(0, last.sent - first.sent) / ((last.at - first.at) / 1000 || Infinity);
  }

  get over() {
    return ["done", "failed", "cancelled"].includes(this.state);
  }

  // The id of the upload, by which the server is told what to judge it with.
  get id() {
    return this.address.replace("/files/", "");
  }

  become(state, words = "") {
    this.state = state;
    this.words = words;
    if (state !== "sending") this.rates = [];
    this.told(this);
  }

  // Ends when others may send: done, failed, paused or cancelled.
  async send() {
    let failures = 0;
    let beginnings = 0;
    this.known = false;
    this.become("sending");
    while (this.state === "sending") {
      const before = this.offset;
      try {
        await this.readable();
        if (!this.address) await this.begin();
        else if (!this.known) await this.locate();
        while (this.state === "sending" && this.offset < this.file.size) {
          await this.patch(failures ? PROBE : SLICE);
          failures = beginnings = 0;
        }
        if (this.state === "sending") this.finish();
      } catch (error) {
        this.flying = 0;
        this.known = false;
        if (this.state !== "sending") return; // somebody paused or cancelled it, which broke the request
        if (error instanceof Gone && (beginnings += 1) <= BEGINNINGS) this.forget();
        else if (error instanceof Broken) await this.pauseFor(failures = this.offset > before ? 1 : failures + 1, error.message);
        else this.become("failed", error instanceof Gone ? "The server does not store what is sent." : error.message);
      }
    }
  }

  // What can be told before a byte is sent.
  look() {
    const { size } = this.file;
    this.hopeless = !size || size > this.door.limit;
    if (!size) this.become("failed", "The file is empty.");
    else if (this.hopeless) this.become("failed", `The file is too large: this server takes at most ${bytes(this.door.limit)}.`);
    else this.become("waiting");
  }

  // A file that was changed or taken away breaks every request, and would look like a server that is away.
  async readable() {
    try {
      await this.file.slice(0, 1).arrayBuffer();
    } catch {
      this.hopeless = true;
      throw new Ended("The file cannot be read: it was changed or moved meanwhile, or is a folder. Choose it again; pack a folder first.");
    }
  }

  async begin() {
    const name = btoa(String.fromCodePoint(...new TextEncoder().encode(this.file.name)));
    const answer = await this.ask("POST", "/files", {
      headers: { "Upload-Length": this.file.size, "Upload-Metadata": `filename ${name},hold` },
    });
    this.address = answer.getResponseHeader("Location") ?? "";
    if (!memory.address.test(this.address)) throw new Ended("The server takes no uploads from this page.");
    memory.keep(this.file, this.address);
    this.at(answer);
  }

  async locate() {
    this.at(await this.ask("HEAD", this.address));
    this.resumed = this.offset > 0;
    this.told(this);
  }

  async patch(most) {
    const body = this.file.slice(this.offset, Math.min(this.offset + most, this.file.size));
    const answer = await this.ask("PATCH", this.address, {
      headers: { "Upload-Offset": this.offset, "Content-Type": "application/offset+octet-stream" },
      body,
      sent: (count) => this.fly(count),
    });
    this.at(answer);
  }

  fly(count) {
    const now = performance.now();
    this.flying = count;
    this.rates = [...this.rates.filter((one) => now - one.at < RATE_OVER), { at: now, sent: this.sent }];
    this.told(this);
  }

  at(answer) {
    const told = Number(answer.getResponseHeader("Upload-Offset") ?? 0); // a new upload is at its begin
    if (!(told >= 0 && told <= this.file.size)) throw new Ended("The server's answer is about another file.");
    this.flying = 0;
    this.offset = told;
    this.known = true;
    if (this.state === "sending") this.told(this);
  }

  // A request of this upload. If the page's token has become too old there is another one, once.
  async ask(method, address, more = {}) {
    const whole = { ...more, door: this.door, seen: (request) => { this.request = request; } };
    let answer = await ask(method, address, whole);
    if (answer.status === 403 && (await this.door.renew())) answer = await ask(method, address, whole);
    this.request = null;
    judge(answer);
    return answer;
  }

  async pauseFor(failures, why) {
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failures - 1)) * (0.75 + Math.random() / 2); // not all at once
    this.become("retrying", `${why}. Next try in ${Math.ceil(wait / 1000)} s; nothing that was sent is lost.`);
    await new Promise((resolve) => {
      this.waking = resolve;
      setTimeout(resolve, wait);
    });
    this.waking = null;
    if (this.state === "retrying") this.become("sending");
  }

  // Try again at once.
  wake() {
    this.waking?.();
  }

  pause() {
    this.stop("paused");
  }

  async cancel() {
    const address = this.address;
    this.stop("cancelled");
    this.forget();
    if (address) await abandon(address, this.door);
  }

  stop(state) {
    this.become(state);
    this.request?.abort();
    this.flying = 0;
    this.wake();
  }

  finish() {
    memory.drop(this.file);
    this.become("done");
  }

  forget() {
    memory.drop(this.file);
    this.address = "";
    this.offset = 0;
  }
}
