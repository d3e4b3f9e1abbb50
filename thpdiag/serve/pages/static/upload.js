// The page where bundles are uploaded: files are dropped or chosen and sent one after the other, each with a row that
// says how far it is. Without this script the form sends one file.
"use strict";

const REDRAWN = 200; // milliseconds between two changes of what a row says about its progress
const STEPS = 4; // how often a screen reader is told how far an upload is

class Row {
  constructor(transfer, list) {
    this.transfer = transfer;
    this.list = list;
    this.shown = ""; // the state that was told last
    this.step = 0;
    this.drawn = -Infinity;
    this.name = visible(transfer.file.name);
    this.item = document.getElementById("transfer").content.cloneNode(true).firstElementChild;
    this.part(".name").textContent = this.name;
    this.part(".size").textContent = bytes(transfer.file.size);
    this.part("progress").setAttribute("aria-label", `Upload of ${this.name}`);
    for (const [kind, act] of [["pause", "pause"], ["resume", "resume"], ["now", "now"], ["again", "resume"], ["cancel", "cancel"], ["remove", "cancel"]]) {
      const button = this.part(`.${kind}`);
      button.setAttribute("aria-label", `${button.textContent.trim()}: ${this.name}`);
      button.addEventListener("click", () => this[act]());
    }
  }

  part(selector) {
    return this.item.querySelector(selector);
  }

  pause() {
    this.transfer.pause();
    this.part(".resume").focus();
  }

  resume() {
    this.transfer.become("waiting");
    this.part(".cancel").focus();
    this.list.work();
  }

  now() {
    this.transfer.wake();
    this.part(".cancel").focus();
  }

  cancel() {
    this.list.remove(this);
    this.transfer.cancel();
  }

  // Shows what changed: states at once, progress now and then.
  draw() {
    const { state, file } = this.transfer;
    const now = performance.now();
    const changed = state !== this.shown;
    if (!changed && now - this.drawn < REDRAWN) return;
    this.drawn = now;
    this.shown = state;
    this.part("progress").value = file.size ? this.transfer.sent / file.size : 0;
    this.part(".told").textContent = this.words();
    if (changed) this.become(state);
    const step = Math.floor((STEPS * this.transfer.sent) / file.size);
    if (state === "sending" && step > this.step && step < STEPS) this.list.say(`${this.name}: ${percent(this.transfer)} sent`);
    this.step = Math.max(step, this.step);
  }

  become(state) {
    const shown = {
      pause: ["sending", "retrying"], resume: ["paused"], now: ["retrying"], again: this.transfer.hopeless ? [] : ["failed"],
      cancel: ["waiting", "sending", "retrying", "paused"], remove: ["failed"], open: ["done"],
    };
    this.item.dataset.state = state;
    for (const [kind, states] of Object.entries(shown)) this.part(`.${kind}`).hidden = !states.includes(state);
    this.part("progress").hidden = !["sending", "retrying", "paused"].includes(state);
    if (state === "done") {
      this.part(".open").href = this.transfer.page;
      this.part(".open").setAttribute("aria-label", `See what was found: ${this.name}`);
    }
    if (state !== "waiting") this.list.say(`${this.name}: ${this.words()}`);
  }

  words() {
    const { state, words, file, sent, rate, resumed } = this.transfer;
    const far = `${bytes(sent)} of ${bytes(file.size)}, ${percent(this.transfer)}`;
    if (state === "waiting") return "Waits for its turn.";
    if (state === "paused") return `Paused at ${far}.`;
    if (state === "retrying") return `${words} (${far})`;
    if (state === "failed") return words;
    if (state === "done") return "Uploaded.";
    if (sent >= file.size) return "All is sent; the server makes sure that it is on its disk.";
    const speed = rate ? `; ${bytes(rate)}/s, ${duration((file.size - sent) / rate)} left` : "";
    return `${resumed ? "Goes on: " : ""}${far}${speed}`;
  }
}

class List {
  constructor(form) {
    this.form = form;
    this.input = form.querySelector("input[type=file]");
    this.items = document.getElementById("transfers");
    this.status = document.getElementById("status");
    this.rows = [];
    this.added = 0; // of several the page is not left for one of them, also if the others are removed
    this.busy = false;
    this.door = {
      limit: Number(form.dataset.limit),
      token: form.dataset.csrf,
      renew: () => this.renew(),
    };
    this.listen();
    this.left();
  }

  listen() {
    this.form.classList.add("live");
    this.input.multiple = true;
    this.input.value = ""; // a browser may keep the choice over a reload, and would not tell of it again
    this.input.addEventListener("change", () => {
      this.add([...this.input.files]);
      this.input.value = "";
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("dragover", (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      this.form.classList.add("over");
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) this.form.classList.remove("over");
    });
    document.addEventListener("drop", (event) => {
      this.form.classList.remove("over");
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      this.add([...event.dataTransfer.files]);
    });
    addEventListener("online", () => this.rows.forEach((row) => row.transfer.wake()));
    addEventListener("beforeunload", (event) => {
      if (this.rows.some((row) => ["sending", "retrying"].includes(row.transfer.state))) event.preventDefault();
    });
  }

  add(files) {
    for (const file of files) {
      if (this.rows.some((row) => !row.transfer.over && memory.key(row.transfer.file) === memory.key(file))) continue;
      const row = new Row(new Transfer(file, this.door, () => row.draw()), this);
      this.rows.push(row);
      this.added += 1;
      this.items.append(row.item);
      row.transfer.look();
      document.getElementById("left-behind").querySelector(`[data-key="${CSS.escape(memory.key(file))}"]`)?.remove();
    }
    this.tidy();
    this.work();
  }

  // One after the other: two at once would each take half of the same line.
  async work() {
    if (this.busy) return;
    this.busy = true;
    let next;
    while ((next = this.rows.find((row) => row.transfer.state === "waiting"))) await next.transfer.send();
    this.busy = false;
    if (this.added === 1 && this.rows[0]?.transfer.state === "done") location.assign(this.rows[0].transfer.page);
  }

  remove(row) {
    row.item.remove();
    this.rows = this.rows.filter((one) => one !== row);
    this.say(`${row.name}: removed`);
    this.input.focus();
    this.tidy();
  }

  // For a screen reader, which is told of states and quarters, not of every byte.
  say(words) {
    this.status.textContent = words;
  }

  // A token of a page that was open for long has become too old: take that of a new one. False if there is none.
  async renew() {
    let page;
    try {
      const answer = await fetch(location.pathname, { cache: "no-store", headers: { Accept: "text/html" } });
      page = new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
      throw new Broken("The server does not answer");
    }
    const token = page.getElementById("upload")?.dataset.csrf;
    if (token) this.door.token = token;
    else if (page.querySelector("input[type=password]")) throw new Ended("You are signed out. Sign in again, then choose the same file: it goes on where it was.");
    return Boolean(token);
  }

  // What was begun before this page was loaded, as far as the server still has it. The files themselves a browser does
  // not give out again, so they have to be chosen.
  async left() {
    for (const { file, address } of memory.all()) {
      const answer = await ask("HEAD", address, { door: this.door }).catch(() => null);
      if (!answer || this.rows.some((row) => memory.key(row.transfer.file) === memory.key(file))) continue;
      if (answer.status === 200) this.leftBehind(file, address, Number(answer.getResponseHeader("Upload-Offset")));
      else if ([404, 410].includes(answer.status)) memory.drop(file);
    }
    this.tidy();
  }

  leftBehind(file, address, offset) {
    const item = document.getElementById("left").content.cloneNode(true).firstElementChild;
    const name = visible(file.name);
    const forget = item.querySelector("button");
    item.dataset.key = memory.key(file);
    item.querySelector(".name").textContent = name;
    item.querySelector(".told").textContent = `${bytes(offset)} of ${bytes(file.size)}, ${percent({ sent: offset, file })}`;
    forget.setAttribute("aria-label", `Forget: ${name}`);
    forget.addEventListener("click", () => {
      memory.drop(file);
      abandon(address, this.door);
      item.remove();
      this.say(`${name}: forgotten`);
      this.input.focus();
      this.tidy();
    });
    document.getElementById("left-behind").querySelector("ul").append(item);
    this.tidy();
  }

  tidy() {
    const behind = document.getElementById("left-behind");
    behind.hidden = !behind.querySelector("li");
    this.items.parentElement.hidden = !this.rows.length;
  }
}

function percent({ sent, file }) {
  return `${file.size ? Math.floor((100 * sent) / file.size) : 0} %`;
}

const form = document.getElementById("upload");
if (form) new List(form);

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.of).textContent.trim());
    button.textContent = "Copied";
  });
}
