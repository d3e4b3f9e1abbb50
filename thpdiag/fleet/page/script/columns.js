// What the cells of a table say, and how its columns are sorted and filtered. A head tells what its cells are like.
const names = new Intl.Collator("en", { numeric: true });
const nothing = "–"; // a cell that can have no value
const several = (head) => "many" in head.dataset;

// The first part of a cell: a name without the path below it, a severity without its notes.
function first(cell) {
  return (cell.firstElementChild || cell).textContent;
}

function values(cell, head) {
  if (!several(head)) return [first(cell)];
  return cell.childElementCount ? [...cell.children].map((part) => part.textContent) : [cell.textContent];
}

// The place of a cell among others: a number, the rank of a word, or the text itself.
function key(cell, head) {
  if ("number" in head.dataset) return cell.dataset.v === undefined ? NaN : Number(cell.dataset.v);
  if (!head.dataset.order) return first(cell);
  const order = head.dataset.order.split("|");
  const rank = order.indexOf(first(cell));
  return rank < 0 ? order.length : rank;
}

function compare(one, other) {
  if (typeof one === "string") return names.compare(one, other);
  if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
  return one - other;
}

// A filter: the values of a column with the numbers of their rows, and which rows pass.
function facet(words, column, options, rows, seen) {
  const numbers = new Map();
  const told = rows.map((row) => seen(row.cells[column]).filter((value) => value !== nothing));
  for (const list of told) for (const value of list) numbers.set(value, (numbers.get(value) || 0) + 1);
  const all = [...numbers.keys()];
  const rank = (value) => (options.includes(value) ? options.indexOf(value) : options.length);
  all.sort((one, other) => rank(one) - rank(other) || numbers.get(other) - numbers.get(one) || names.compare(one, other));
  const choice = element("select");
  choice.append(element("option", "all", { value: "" }));
  all.forEach((value, at) => choice.append(element("option", `${value} (${counted.format(numbers.get(value))})`, { value: at + 1 })));
  return {
    words, choice, some: all.length > 1 || (all.length === 1 && numbers.get(all[0]) < rows.length),
    choose: (value) => { choice.value = String(all.indexOf(value) + 1 || ""); },
    passes() {
      const wanted = all[Number(choice.value) - 1];
      return wanted === undefined ? null : (at) => told[at].includes(wanted);
    },
  };
}

// The filters of a table. Beside the severities a column can tell whether anything was found.
function facets(heads, rows) {
  return heads.flatMap((head, column) => {
    if (!head.dataset.facet) return [];
    const order = (head.dataset.order || "").split("|");
    const found = (head.dataset.found || "").split("|");
    const seen = (cell) => values(cell, head);
    if (!head.dataset.found) return [facet(head.dataset.facet, column, order, rows, seen)];
    const verdict = (cell) => seen(cell).map((value) => (found.includes(value) ? "found" : value));
    const grade = (cell) => seen(cell).filter((value) => found.includes(value));
    const notes = (cell) => (cell.children[1] ? cell.children[1].textContent.split(", ") : [head.dataset.notes]);
    return [
      facet("Verdict", column, ["found", ...order], rows, verdict),
      facet(head.dataset.facet, column, order, rows, grade),
      facet("Note", column, [head.dataset.notes], rows, notes),
    ];
  });
}
