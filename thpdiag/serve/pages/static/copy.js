// Buttons that copy a text of the page.
"use strict";

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.of).textContent.trim());
    button.textContent = "Copied";
  });
}
