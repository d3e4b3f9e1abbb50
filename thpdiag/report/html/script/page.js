// What makes a page handier: buttons that copy commands, filters of long lists, folded sections that open for a link.
function button(block) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "copy";
  made.textContent = "Copy";
  made.setAttribute("aria-label", "Copy the command");
  made.addEventListener("click", async () => {
    made.textContent = (await copied(block)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { made.textContent = "Copy"; }, 2000);
  });
  return made;
}

async function copied(block) {
  try {
    await navigator.clipboard.writeText(block.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(block); // a page from a file or without a secure connection
    return document.execCommand("copy");
  }
}

for (const block of document.querySelectorAll("pre.command")) {
  const around = document.createElement("div");
  around.className = "copied";
  block.replaceWith(around);
  around.append(block, button(block));
}

// Rows of a table, or files of a tree with the folders that they are in.
function filter(list) {
  const rows = [...list.querySelectorAll(list.tagName === "TABLE" ? "tbody > tr" : "li")];
  const label = document.createElement("label");
  const box = document.createElement("input");
  const count = document.createElement("span");
  box.type = "search";
  count.setAttribute("aria-live", "polite");
  label.append("Filter ", box);
  const line = document.createElement("p");
  line.className = "small hint";
  line.append(label, " ", count);
  box.addEventListener("input", () => {
    const words = box.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const single = (row) => !row.querySelector("li");
    const fits = (row) => words.every((word) => row.textContent.toLowerCase().includes(word));
    for (const row of rows) if (single(row)) row.hidden = !fits(row);
    for (const row of rows.reverse()) {
      if (single(row)) continue;
      row.hidden = [...row.querySelectorAll("li")].every((inner) => inner.hidden);
      row.querySelector("details").open = words.length > 0;
    }
    rows.reverse();
    const all = rows.filter(single);
    count.textContent = words.length ? `${all.filter((row) => !row.hidden).length} of ${all.length}` : "";
  });
  (list.closest(".scroll") || list).before(line);
}

document.querySelectorAll(".filtered").forEach(filter);

function unfold() {
  const wanted = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!wanted) return;
  for (let folded = wanted.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
  wanted.scrollIntoView();
}

addEventListener("hashchange", unfold);
unfold();
