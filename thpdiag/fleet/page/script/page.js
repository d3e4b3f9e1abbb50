// All long tables of the page; a value that is counted leads to its hosts; `/` goes to the search.
const lists = new Map();
for (const section of document.querySelectorAll(".listing")) {
  if (section.querySelectorAll("tbody tr").length > 1) lists.set(section.id, listing(section));
}

for (const table of document.querySelectorAll("table[data-counts]")) {
  const hosts = lists.get("hosts");
  if (!hosts) break;
  for (const cell of table.querySelectorAll("th[scope=row]")) {
    const value = cell.textContent;
    cell.replaceChildren(button(value, () => hosts.choose(table.dataset.counts, value)));
  }
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.closest && event.target.closest("input, select, textarea");
  const first = lists.values().next().value;
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writing || !first) return;
  event.preventDefault();
  first.search.focus();
});
