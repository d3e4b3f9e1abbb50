// A long table: its leaves are taken apart, and the rows that are asked for shown, a window of them at a time.
const WINDOW = 100;

function listing(section) {
  const heads = [...section.querySelector("thead tr").cells];
  const rows = [...section.querySelectorAll("tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const filters = facets(heads, rows);
  const order = rows.map((_, at) => at);
  const state = { sorted: order, shown: order, at: 0, column: -1, down: false };

  const search = element("input", "", { type: "search", autocomplete: "off", spellcheck: "false" });
  const controls = element("div", "", { class: "controls", role: "search", "aria-label": `Filter ${section.querySelector("h2").textContent}` });
  controls.append(labelled("Search", search));
  for (const filter of filters) if (filter.some) controls.append(labelled(filter.words, filter.choice));
  const tally = element("p", "", { "aria-live": "polite", tabindex: "-1" });
  const whole = button("Show all", () => { reset(); filter(); search.focus(); });
  const told = element("div", "", { class: "tally" });
  told.append(tally, whole);
  const body = element("tbody");
  const table = element("table");
  const head = section.querySelector("thead");
  const box = section.querySelector(".scroll");
  const pager = element("nav", "", { class: "pager", "aria-label": `Rows of ${section.querySelector("h2").textContent}` });
  const where = element("span");
  const turns = [
    ["First", () => 0], ["Previous", () => state.at - WINDOW], ["Next", () => state.at + WINDOW],
    ["Last", () => Math.floor((state.shown.length - 1) / WINDOW) * WINDOW],
  ].map(([words, to]) => button(words, () => { state.at = to(); draw(); section.scrollIntoView(); }));

  table.append(head, body);
  box.replaceChildren(table);
  box.setAttribute("aria-label", `Table of ${section.dataset.rows}`);
  const before = [...section.children].filter((one) => !one.matches("details, .scroll"));
  pager.append(turns[0], turns[1], where, turns[2], turns[3]);
  section.replaceChildren(...before, controls, told, box, pager);
  search.addEventListener("input", filter);
  for (const one of filters) one.choice.addEventListener("change", filter);
  heads.forEach(sortable);
  window.addEventListener("beforeprint", () => body.replaceChildren(...state.shown.map((at) => rows[at])));
  window.addEventListener("afterprint", draw);
  draw();

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const passes = filters.map((one) => one.passes()).filter(Boolean);
    state.shown = state.sorted.filter((at) => words.every((word) => texts[at].includes(word)) && passes.every((pass) => pass(at)));
    state.at = 0;
    draw();
  }

  function draw() {
    const total = state.shown.length;
    const last = Math.min(state.at + WINDOW, total);
    body.replaceChildren(...state.shown.slice(state.at, last).map((at) => rows[at]));
    const all = `${counted.format(rows.length)} ${rows.length === 1 ? section.dataset.one : section.dataset.rows}`;
    whole.hidden = total === rows.length;
    tally.textContent = total === rows.length ? all : `${counted.format(total)} of ${all}`;
    where.textContent = total ? `${counted.format(state.at + 1)} to ${counted.format(last)} of ${counted.format(total)}` : "nothing";
    turns[0].disabled = turns[1].disabled = !state.at;
    turns[2].disabled = turns[3].disabled = last >= total;
    pager.hidden = total <= WINDOW;
  }

  function sortable(cell, column) {
    if ("plain" in cell.dataset) return;
    const words = button(cell.textContent, () => sort(column));
    cell.replaceChildren(words);
    cell.setAttribute("aria-sort", "none");
  }

  // Up, down, and as the page had it.
  function sort(column) {
    const again = state.column === column;
    if (again && state.down) state.column = -1;
    else Object.assign(state, { column, down: again });
    heads.forEach((cell, at) => cell.hasAttribute("aria-sort") && cell.setAttribute("aria-sort", at !== state.column ? "none" : state.down ? "descending" : "ascending"));
    state.sorted = order;
    if (state.column >= 0) {
      const keys = rows.map((row) => key(row.cells[column], heads[column]));
      const turned = state.down ? -1 : 1;
      state.sorted = [...order].sort((one, other) => turned * compare(keys[one], keys[other]) || one - other);
    }
    filter();
  }

  function reset() {
    search.value = "";
    for (const one of filters) one.choice.value = "";
  }

  return {
    search,
    choose(words, value) {
      reset();
      for (const one of filters) if (one.words === words) one.choose(value);
      filter();
      section.scrollIntoView();
      tally.focus({ preventScroll: true });
    },
  };
}
