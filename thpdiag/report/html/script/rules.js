// The whole condition of a rule that did not match, from the document: all of them would double the page.
const HIDDEN = /[\p{C}\p{Default_Ignorable_Code_Point}\u2028\u2029]/gu;

function visible(text) {
  return text.replace(HIDDEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
}

// As `tree` in __init__.py writes those that matched.
function condition(node) {
  const item = document.createElement("li");
  const part = (name, text) => {
    const made = document.createElement(name);
    made.textContent = visible(text);
    item.append(made, " ");
    return made;
  };
  const value = node.value || "unknown";
  part("i", value).className = value;
  part("code", node.expr || "");
  item.append(visible(node.text || ""));
  const { needed } = node;
  if (needed !== null && needed !== "") part("em", ` (needed: ${typeof needed === "number" ? quantity(needed, "") : needed})`);
  if (node.children.length) item.append(list(node.children));
  return item;
}

function list(nodes) {
  const made = document.createElement("ul");
  made.append(...nodes.map(condition));
  return made;
}

function conditions(table) {
  for (const row of table.tBodies[0].rows) {
    if (row.querySelector(".tree")) continue;
    const cell = row.cells[row.cells.length - 1];
    const made = document.createElement("button");
    made.type = "button";
    made.className = "whole hint";
    made.textContent = "Condition";
    made.setAttribute("aria-expanded", "false");
    made.addEventListener("click", async () => {
      let tree = cell.querySelector(".tree");
      if (!tree) {
        const { rules } = hosts(await result())[Number(table.dataset.host)];
        const id = row.cells[0].querySelector("code").textContent;
        const rule = rules.find((one) => one.id === id);
        tree = list(rule && rule.tree ? [rule.tree] : []);
        tree.className = "tree";
        tree.hidden = true;
        made.after(tree);
      }
      tree.hidden = !tree.hidden;
      made.setAttribute("aria-expanded", String(!tree.hidden));
    });
    cell.append(" ", made);
  }
}

for (const table of document.querySelectorAll("table[data-host]")) {
  table.closest("details").addEventListener("toggle", () => conditions(table), { once: true });
}
