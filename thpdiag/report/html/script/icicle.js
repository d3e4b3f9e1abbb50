// The picture of the calls: a click zooms, search finds, arrow keys walk. Everything it knows stands in the picture:
// places are percent of the width (0 to 100), names and shares are the tooltips, what a frame is says its group.
const ROW = 17;
const LETTER = 6.2;
const KINDS = { fr: "", ft: "task", fk: "kernel", fo: "program", fm: "cited by a finding" };

class Icicle {
  constructor(figure) {
    this.figure = figure;
    this.picture = figure.querySelector(":scope > svg");
    this.share = Number(figure.dataset.share);
    this.labels = this.picture.querySelector(".labels");
    this.frames = null;
    this.view = [0, 100];
    this.chosen = null;
    this.told = document.createElement("p");
    this.told.className = "small told";
    this.told.setAttribute("aria-live", "polite");
    this.told.textContent = "Click or Enter: closer; arrow keys: walk; Escape: back; / searches.";
    this.beside = document.createElement("div");
    this.beside.className = "small beside";
    this.cursor = this.picture.appendChild(shape("rect", { class: "chosen", fill: "none", stroke: "#1b1f24", "stroke-width": 2, height: ROW - 1, "pointer-events": "none", display: "none" }));
    this.picture.before(this.searching());
    this.picture.after(this.told, this.beside);
    this.picture.addEventListener("click", (event) => this.on(event, (frame) => { this.choose(frame); this.zoom(frame); this.link(frame); }));
    this.picture.addEventListener("pointerover", (event) => this.on(event, (frame) => this.tell(frame)));
    figure.addEventListener("keydown", (event) => this.key(event));
    this.wide = 0;
    new ResizeObserver(([seen]) => { this.wide = seen.contentRect.width; this.label(); }).observe(this.picture);
  }

  // The search box with what it found.
  searching() {
    const line = document.createElement("p");
    const label = document.createElement("label");
    this.box = document.createElement("input");
    this.found = document.createElement("span");
    this.box.type = "search";
    this.box.placeholder = "function";
    this.found.setAttribute("aria-live", "polite");
    label.append("Search ", this.box);
    line.className = "small";
    line.append(label, " ", this.found);
    this.box.addEventListener("input", () => this.search(this.box.value));
    this.box.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key !== "Escape" && event.key !== "Enter") return;
      if (event.key === "Escape") this.search(this.box.value = "");
      event.preventDefault();
      this.figure.focus();
    });
    return line;
  }

  // The frames, callers first, each with its caller and with what it calls from left to right.
  load() {
    if (this.frames) return this.frames;
    const all = [...this.picture.querySelectorAll(".f rect")].map((rect) => this.read(rect));
    all.sort((one, other) => one.row - other.row || one.x - other.x);
    const rows = [];
    for (const frame of all) {
      (rows[frame.row] = rows[frame.row] || []).push(frame);
      const above = rows[frame.row - 1] || [];
      frame.caller = above[this.last(above, frame.x)] || null;
      if (frame.caller) frame.caller.calls.push(frame);
    }
    this.frames = all;
    this.of = new Map(all.map((frame) => [frame.rect, frame]));
    return all;
  }

  read(rect) {
    const part = (name) => Number((rect.getAttribute(name) || "0%").slice(0, -1));
    const text = rect.querySelector("title").textContent;
    const cut = text.lastIndexOf(": ");
    return {
      rect, x: part("x"), width: part("width"), row: Math.round(Number(rect.parentNode.getAttribute("y")) / ROW),
      kind: KINDS[rect.parentNode.parentNode.classList[1]], name: text.slice(0, cut), text, calls: [], caller: null, hit: false,
    };
  }

  // The last frame of a row that begins at a place or before it.
  last(row, place) {
    let low = 0;
    let high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row[middle].x <= place + 0.001) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  on(event, act) {
    this.load();
    const frame = this.of.get(event.target.closest("rect"));
    if (frame) act(frame);
  }

  key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const all = this.load();
    const chosen = this.chosen || all[0];
    const beside = (step) => {
      const row = all.filter((frame) => frame.row === chosen.row && this.place(frame));
      return row[row.indexOf(chosen) + step] || chosen;
    };
    const act = {
      ArrowDown: () => this.choose(this.chosen ? chosen.calls.find((frame) => this.place(frame)) || chosen : chosen),
      ArrowUp: () => this.choose(chosen.caller || chosen),
      ArrowLeft: () => this.choose(beside(-1)),
      ArrowRight: () => this.choose(beside(1)),
      Enter: () => { this.zoom(chosen); this.link(chosen); },
      Escape: () => { this.box.value = ""; this.search(""); this.zoom(all[0]); this.choose(null); this.link(null); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  // Where a frame lies in the view, null if it does not.
  place(frame) {
    const [left, wide] = [this.view[0], this.view[1] - this.view[0]];
    const x = Math.max(0, (100 * (frame.x - left)) / wide);
    const end = Math.min(100, (100 * (frame.x + frame.width - left)) / wide);
    return end - x > 0.0005 ? { x, width: end - x } : null;
  }

  zoom(frame) {
    this.view = [frame.x, frame.x + Math.max(frame.width, 0.005)];
    for (const one of this.load()) {
      const at = this.place(one);
      if (!at) {
        one.rect.setAttribute("display", "none");
        continue;
      }
      one.rect.removeAttribute("display");
      one.rect.setAttribute("x", `${at.x.toFixed(3)}%`);
      one.rect.setAttribute("width", `${at.width.toFixed(3)}%`);
      one.rect.classList.toggle("caller", one.row < frame.row);
    }
    this.label();
    this.mark();
  }

  // The address of the page names the frame, so that it can be sent to somebody.
  link(frame) {
    const name = this.figure.getAttribute("aria-labelledby");
    history.replaceState(null, "", frame ? `#${name}.${this.frames.indexOf(frame)}` : "#");
  }

  // Opens what an address names.
  open(number) {
    const frame = this.load()[number];
    if (!frame) return;
    for (let folded = this.figure.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    this.figure.scrollIntoView();
    this.choose(frame);
    this.zoom(frame);
  }

  // What calls the functions of a name, and what they call, with shares over all stacks.
  sandwich(frame) {
    this.beside.replaceChildren();
    if (!frame || frame.row < 2) return;
    const name = frame.name;
    const within = (one) => one && (one.name === name || within(one.caller));
    const [above, below] = [new Map(), new Map()];
    let whole = 0;
    for (const one of this.frames) {
      if (one.row < 2 || one.name !== name) continue;
      for (const inner of one.calls) if (inner.name !== name) below.set(inner.name, (below.get(inner.name) || 0) + inner.width);
      if (within(one.caller)) continue;
      whole += one.width;
      above.set(one.caller.name, (above.get(one.caller.name) || 0) + one.width);
    }
    const list = (title, shares) => {
      const line = document.createElement("p");
      const rows = [...shares].sort((one, other) => other[1] - one[1]).slice(0, 8);
      line.textContent = `${title}: ${rows.map(([who, wide]) => `${who} ${this.percent(wide)}`).join(", ") || "nothing that is drawn"}`;
      return line;
    };
    this.beside.append(list(`${name}, ${this.percent(whole)} in all stacks, called by`, above), list("It calls", below));
  }

  percent(wide) {
    return quantity((wide / 100) * this.share, "ratio");
  }

  choose(frame) {
    this.chosen = frame;
    this.mark();
    this.sandwich(frame);
    if (frame) this.tell(frame);
    else this.told.textContent = "All of the recording is shown.";
  }

  mark() {
    const at = this.chosen && this.place(this.chosen);
    if (!at) {
      this.cursor.setAttribute("display", "none");
      return;
    }
    this.cursor.removeAttribute("display");
    for (const [key, value] of Object.entries({ x: `${at.x}%`, width: `${at.width}%`, y: this.chosen.row * ROW })) this.cursor.setAttribute(key, value);
  }

  tell(frame) {
    this.told.textContent = frame.kind ? `${frame.text} (${frame.kind})` : frame.text;
  }

  // Names where they fit in the view; the picture has those of its first width.
  label() {
    const wide = this.wide || this.picture.getBoundingClientRect().width;
    if (!wide || (!this.frames && Math.abs(wide - 960) < 40)) return;
    const made = [];
    for (const frame of this.load()) {
      const at = this.place(frame);
      const letters = at ? Math.floor((at.width * wide / 100 - 6) / LETTER) : 0;
      if (letters < 4) continue;
      const text = shape("text", { x: 3, y: 12 });
      text.textContent = frame.name.length > letters ? `${frame.name.slice(0, letters - 1)}…` : frame.name;
      const cut = shape("svg", { x: `${at.x}%`, y: frame.row * ROW, width: `${at.width}%` });
      cut.append(text);
      made.push(cut);
    }
    this.labels.replaceChildren(...made);
  }

  // What holds a text in its name; a stack that does so twice counts once.
  search(text) {
    const wanted = text.trim().toLowerCase();
    const pattern = expression(text.trim());
    let [count, wide] = [0, 0];
    for (const frame of this.load()) {
      const hit = wanted !== "" && frame.row > 0 && (frame.name.toLowerCase().includes(wanted) || Boolean(pattern && pattern.test(frame.name)));
      frame.rect.classList.toggle("hit", hit);
      frame.hit = hit || Boolean(frame.caller && frame.caller.hit);
      if (hit) count += 1;
      if (hit && !(frame.caller && frame.caller.hit)) wide += frame.width;
    }
    this.figure.classList.toggle("searched", count > 0);
    this.found.textContent = wanted === "" ? "" : `${count} ${count === 1 ? "box" : "boxes"}, in ${quantity((wide / 100) * this.share, "ratio")} of the samples`;
  }
}

// What is typed, as a regular expression if it is one.
function expression(text) {
  try {
    return /[.*+?|^$[\]]/.test(text) ? new RegExp(text, "i") : null;
  } catch {
    return null;
  }
}

const icicles = [...document.querySelectorAll(".icicle")].map((figure) => new Icicle(figure));

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, textarea, select")) return;
  const seen = icicles.filter((one) => !one.figure.closest("details:not([open])"));
  const wanted = seen.find((one) => one.figure.contains(document.activeElement)) || seen[0];
  if (!wanted) return;
  event.preventDefault();
  wanted.box.focus();
});

function follow() {
  const wanted = /^#(.+)\.(\d+)$/.exec(location.hash);
  const icicle = wanted && icicles.find((one) => one.figure.getAttribute("aria-labelledby") === wanted[1]);
  if (icicle) icicle.open(Number(wanted[2]));
}

addEventListener("hashchange", follow);
follow();
