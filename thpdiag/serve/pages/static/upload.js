// The page where bundles are uploaded: files are dropped or chosen and sent one after the other, each with a row that
// says how far it is, and then what came of it. Files that come together are one case, unless somebody wants separate
// ones; on the page of a case they come to that. Without this script the form sends them.
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
    this.outcome = null; // state, words and address, once the server judges it
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
    const { file } = this.transfer;
    const state = this.outcome?.state ?? this.transfer.state;
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
      pause: ["sending", "retrying"], resume: ["paused"], now: ["retrying"], again: this.transfer.hopeless || this.outcome ? [] : ["failed"],
      cancel: ["waiting", "sending", "retrying", "paused"], remove: ["failed"], open: ["judged", "found", "refused"],
    };
    this.item.dataset.state = state;
    for (const [kind, states] of Object.entries(shown)) this.part(`.${kind}`).hidden = !states.includes(state);
    this.part("progress").hidden = !["sending", "retrying", "paused"].includes(state);
    if (this.outcome?.page) {
      this.part(".open").href = this.outcome.page;
      this.part(".open").textContent = state === "found" ? "Open the diagnosis" : state === "refused" ? "See why" : "Watch";
      this.part(".open").setAttribute("aria-label", `${this.part(".open").textContent}: ${this.name}`);
    }
    if (state !== "waiting") this.list.say(`${this.name}: ${this.words()}`);
  }

  redraw() {
    this.shown = "";
    this.draw();
  }

  // What the server makes of it: judged as long as it works on it, then found, refused or failed.
  tell(state, words, page = "") {
    this.outcome = { state, words, page };
    this.redraw();
  }

  words() {
    if (this.outcome) return this.outcome.words;
    const { state, words, file, sent, rate, resumed } = this.transfer;
    const far = `${bytes(sent)} of ${bytes(file.size)}, ${percent(this.transfer)}`;
    if (state === "waiting") return "Waiting.";
    if (state === "paused") return `Paused at ${far}.`;
    if (state === "retrying") return `${words} (${far})`;
    if (state === "failed") return words;
    if (state === "done") return this.group.waiting();
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
    this.groups = []; // of several the page is not left for one of them, also if the others are removed
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
    this.input.value = ""; // a browser may keep the choice over a reload, and would not tell of it again
    this.input.addEventListener("change", () => {
      this.add([...this.input.files]);
      this.input.value = "";
    });
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.querySelector("#paste").addEventListener("click", () => this.paste());
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

  paste() {
    const field = this.form.querySelector("#text");
    if (field.value.trim()) {
      this.add([new File([field.value], "pasted.txt", { type: "text/plain" })]);
      field.value = "";
    } else {
      field.focus();
    }
  }

  add(files) {
    const together = !document.getElementById("separate")?.checked;
    let group = null;
    for (const file of files) {
      if (this.rows.some((row) => !row.transfer.over && memory.key(row.transfer.file) === memory.key(file))) continue;
      const row = new Row(new Transfer(file, this.door, () => row.draw()), this);
      if (!group || !together) this.groups.push((group = new Group(this, together && files.length > 1)));
      row.group = group;
      group.rows.push(row);
      this.rows.push(row);
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
    while ((next = this.rows.find((row) => row.transfer.state === "waiting"))) {
      await next.transfer.send();
      await next.group.finish();
    }
    this.busy = false;
  }

  remove(row) {
    row.item.remove();
    this.rows = this.rows.filter((one) => one !== row);
    row.group.remove(row);
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
    else if (page.querySelector("input[type=password]")) throw new Ended("You are signed out. Sign in again, then choose the same file: the upload resumes.");
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

// Files that are judged together. Once all of them are there the server is told so.
class Group {
  constructor(list, together) {
    this.list = list;
    this.together = together;
    this.rows = [];
    this.begun = false;
  }

  remove(row) {
    this.rows = this.rows.filter((one) => one !== row);
    this.finish();
  }

  // What a file that is there waits for.
  waiting() {
    const failed = this.rows.find((row) => row.transfer.state === "failed");
    if (failed) return `Sent. Its case waits for ${failed.name}: send that again, or remove it.`;
    return this.together ? "Sent. Waits for the other files of its case." : "Sent.";
  }

  async finish() {
    this.rows.forEach((row) => row.transfer.state === "done" && row.redraw());
    if (this.begun || !this.rows.length || this.rows.some((row) => row.transfer.state !== "done")) return;
    this.begun = true;
    try {
      this.follow(await this.judge());
    } catch (error) {
      this.rows.forEach((row) => row.tell("failed", error.message));
    }
  }

  // The job that the server makes of them; asked again as long as the connection is at fault.
  async judge() {
    const { door, form } = this.list;
    const body = new Blob([JSON.stringify({ uploads: this.rows.map((row) => row.transfer.id), case: form.dataset.case })]);
    const request = { door, body, headers: { "Content-Type": "application/json" } };
    for (let failures = 1; ; failures += 1) {
      try {
        let answer = await ask("POST", "/api/v1/cases", request);
        if (answer.status === 403 && (await this.list.renew())) answer = await ask("POST", "/api/v1/cases", request);
        judge(answer);
        return JSON.parse(answer.responseText);
      } catch (error) {
        if (error instanceof Gone) throw new Ended("The server no longer has all of these files. Send them again.");
        if (!(error instanceof Broken)) throw error;
        this.rows.forEach((row) => row.tell("retrying", `${error.message}. Retrying.`));
        await new Promise((resolve) => setTimeout(resolve, Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures)));
      }
    }
  }

  // With one case alone the page goes on to it; of several each row says what came of it.
  follow({ job }) {
    const page = `/jobs/${job}`;
    if (this.list.groups.length === 1) {
      location.assign(page);
      return;
    }
    this.rows.forEach((row) => row.tell("judged", "Uploaded. It waits to be analyzed.", page));
    const source = new EventSource(`/api/v1/jobs/${job}/events`);
    source.addEventListener("message", (event) => this.take(JSON.parse(event.data), page));
    addEventListener("pagehide", () => source.close());
  }

  take({ state, stage, status, reason, page }, job) {
    const told = {
      queued: ["judged", "Uploaded. It waits to be analyzed."],
      running: ["judged", `Uploaded. Being analyzed: ${stage || "beginning"}.`],
      done: status === "refused" ? ["refused", `Refused: ${visible(reason || "nothing in it was recognized")}.`] : ["found", "Analyzed."],
      failed: ["refused", `The analysis failed: ${visible(reason)}.`],
    };
    this.rows.forEach((row) => row.tell(...told[state], page ?? job));
  }
}

function percent({ sent, file }) {
  return `${file.size ? Math.floor((100 * sent) / file.size) : 0} %`;
}

const form = document.getElementById("upload");
if (form) new List(form);
