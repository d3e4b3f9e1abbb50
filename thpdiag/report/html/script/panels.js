// Panels over one axis of time: values under the pointer in all of them, and a closer look at a stretch of it.
// A place is 0 to 1000 over the whole width, as in the paths; a stretch is [first, last, left, right].
const SHAPES = "http://www.w3.org/2000/svg";
const WIDTH = 1000;

function shape(name, attributes) {
  const made = document.createElementNS(SHAPES, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

class Panels {
  constructor(group) {
    this.group = group;
    this.clock = group.dataset.clock;
    this.boot = group.dataset.boot.split(" ");
    this.stretches = group.dataset.x.split(",").map((text) => text.split(" ").map(Number));
    this.plots = [...group.querySelectorAll(".plot")];
    this.told = group.querySelector(".now-at");
    this.ticks = group.querySelector(".ticks");
    this.marks = group.querySelector(".marks");
    this.whole = { told: this.told.textContent, ticks: [...this.ticks.childNodes] };
    this.view = [0, WIDTH];
    this.at = null;
    this.series = null;
    this.told.setAttribute("aria-live", "polite");
    const hint = document.createElement("p");
    hint.className = "small hint";
    hint.textContent = "Point at a chart or use the arrow keys for values; drag, or + and -, for a closer look; Escape shows all.";
    this.told.after(hint);
    this.cursors = this.plots.map((plot) => plot.appendChild(shape("path", { class: "cursor", stroke: "#57606a", "vector-effect": "non-scaling-stroke" })));
    this.plots.forEach((plot) => this.listen(plot));
    group.classList.add("live");
    group.addEventListener("keydown", (event) => this.key(event));
  }

  listen(plot) {
    const place = (event) => {
      const box = plot.getBoundingClientRect();
      const part = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      return this.view[0] + part * (this.view[1] - this.view[0]);
    };
    let from = null;
    plot.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      from = place(event);
      plot.setPointerCapture(event.pointerId); // a drag may end beside the plot
    });
    plot.addEventListener("pointermove", (event) => this.point(place(event), from));
    plot.addEventListener("pointerup", (event) => {
      const to = place(event);
      if (from !== null && Math.abs(to - from) > (this.view[1] - this.view[0]) / 100) this.zoom(Math.min(from, to), Math.max(from, to));
      from = null;
    });
    plot.addEventListener("pointercancel", () => { from = null; });
    plot.addEventListener("dblclick", () => this.zoom(0, WIDTH));
  }

  key(event) {
    const wide = this.view[1] - this.view[0];
    const inside = this.at !== null && this.view[0] <= this.at && this.at <= this.view[1];
    const at = inside ? this.at : this.view[0] + wide / 2;
    const act = {
      ArrowLeft: () => this.point(Math.max(at - wide / 100, this.view[0])),
      ArrowRight: () => this.point(Math.min(at + wide / 100, this.view[1])),
      Home: () => this.point(this.view[0]),
      End: () => this.point(this.view[1]),
      "+": () => this.zoom(at - wide / 4, at + wide / 4),
      "=": () => this.zoom(at - wide / 4, at + wide / 4),
      "-": () => this.zoom(at - wide, at + wide),
      Escape: () => this.zoom(0, WIDTH),
    }[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
  }

  time(place) {
    const found = this.stretches.find(([, , , right]) => place <= right) || this.stretches[this.stretches.length - 1];
    const [first, last, left, right] = found;
    return right > left ? first + Math.max(0, Math.min(1, (place - left) / (right - left))) * (last - first) : first;
  }

  place(time) {
    const [first, last, left, right] = this.stretches.find(([, end]) => time <= end) || this.stretches[this.stretches.length - 1];
    return last > first ? left + Math.max(0, Math.min(1, (time - first) / (last - first))) * (right - left) : left;
  }

  async point(place, from = null) {
    this.at = place;
    const first = from === null ? place : from;
    this.cursors.forEach((cursor) => {
      cursor.setAttribute("d", from === null ? `M${place},0V1000` : `M${first},0V1000H${place}V0z`);
      cursor.setAttribute("fill", from === null ? "none" : "#57606a");
      cursor.setAttribute("fill-opacity", "0.2");
    });
    const time = this.time(place);
    this.told.textContent = `at ${this.words(time)}`;
    if (await this.load()) this.tell(time);
  }

  // A time on both clocks, where it is known when the host was booted.
  words(time) {
    const told = moment(time, this.clock);
    if (this.boot.length < 2) return told;
    const [zero, clock] = [Number(this.boot[0]), this.boot[1]];
    return `${told} = ${this.clock === "boot" ? moment(time + zero, clock) : moment(time - zero, "boot")}`;
  }

  async load() {
    if (this.series) return true;
    try {
      const host = hosts(await result())[Number(this.group.closest("[data-host]").dataset.host)];
      this.series = host.timeline.series;
    } catch {
      return false;
    }
    return true;
  }

  tell(time) {
    for (const figure of this.group.querySelectorAll(".panel")) {
      const keys = figure.querySelectorAll(".key .now");
      figure.querySelectorAll("[data-s]").forEach((line, number) => {
        const near = this.near(line, time);
        keys[number].textContent = near ? near.words : "";
      });
    }
  }

  // The bucket of a line that is nearest to a time.
  near(line, time) {
    let best = null;
    for (const number of line.dataset.s.split(",")) {
      const series = this.series[Number(number)];
      for (const [at, , , mean] of series.points) {
        if (mean !== null && (best === null || Math.abs(at - time) < Math.abs(best.at - time))) best = { at, words: quantity(mean, series.unit || "") };
      }
    }
    return best;
  }

  async zoom(left, right) {
    const first = Math.max(0, left);
    const last = Math.min(WIDTH, right);
    if (last - first < 1) return;
    this.view = [first, last];
    const all = first === 0 && last === WIDTH;
    this.plots.forEach((plot) => {
      const high = plot.getAttribute("viewBox").split(" ")[3];
      plot.setAttribute("viewBox", `${first} 0 ${last - first} ${high}`);
    });
    this.cursors.forEach((cursor) => cursor.removeAttribute("d"));
    this.label(all);
    if (this.marks) this.marks.style.visibility = all ? "" : "hidden";
    if (!all && (await this.load())) this.refine();
  }

  label(all) {
    this.told.textContent = all ? this.whole.told : `${moment(this.time(this.view[0]), this.clock)} to ${moment(this.time(this.view[1]), this.clock)}; Escape shows all`;
    if (all) {
      this.ticks.replaceChildren(...this.whole.ticks);
      return;
    }
    const anchors = ["start", "middle", "end"];
    this.ticks.replaceChildren(...anchors.map((anchor, number) => {
      const place = this.view[0] + (number / 2) * (this.view[1] - this.view[0]);
      const text = shape("text", { x: `${50 * number}%`, y: 12, "font-size": 11, fill: "#57606a", "text-anchor": anchor });
      text.textContent = moment(this.time(place), this.clock);
      return text;
    }));
  }

  // Every bucket instead of one for four units of width.
  refine() {
    for (const line of this.group.querySelectorAll("[data-s]:not([data-fine])")) {
      line.dataset.fine = "";
      const [low, span] = line.dataset.y.split(" ").map(Number);
      const y = (value) => (98 - (96 * (value - low)) / span).toFixed(1);
      const paths = line.querySelectorAll("path");
      const points = line.dataset.s.split(",").map((number) => this.series[Number(number)].points.filter((row) => !row.includes(null)));
      const through = (rows, column) => rows.map((row) => `${this.place(row[0]).toFixed(2)},${y(row[column])}`);
      paths[paths.length - 1].setAttribute("d", points.map((rows) => this.runs(rows).map((run) => (run.length > 1 ? `M${through(run, 3).join("L")}` : this.dash(through(run, 3)[0]))).join("")).join(""));
      if (paths.length > 1) paths[0].setAttribute("d", points.map((rows) => this.runs(rows).map((run) => `M${[...through(run, 2), ...through(run, 1).reverse()].join("L")}z`).join("")).join(""));
    }
  }

  // A point alone.
  dash(point) {
    const [x, y] = point.split(",").map(Number);
    return `M${Math.max(x - 6, 0)},${y}H${Math.min(x + 6, WIDTH)}`;
  }

  // Points by the stretches in which they lie, so that no line crosses a gap.
  runs(rows) {
    const runs = [];
    let stretch = null;
    for (const row of rows) {
      const mine = this.stretches.findIndex(([, last]) => row[0] <= last);
      if (mine !== stretch || !runs.length) runs.push([]);
      stretch = mine;
      runs[runs.length - 1].push(row);
    }
    return runs;
  }
}

document.querySelectorAll(".axis").forEach((group) => new Panels(group));
