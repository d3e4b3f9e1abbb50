// The verdict is painted before all that lies below it is laid out, which takes several times as long. Not where the
// reader comes for another place of the page; paper has everything at any time (style.css).
const root = document.documentElement;
const [visit] = performance.getEntriesByType("navigation");
if (!document.hidden && !location.hash && visit && visit.type === "navigate") {
  const complete = () => {
    root.classList.remove("opening");
    dispatchEvent(new Event("opened")); // for the script of the page, which would delay the first paint
  };
  root.classList.add("opening");
  requestAnimationFrame(() => setTimeout(complete));
  setTimeout(complete, 1000); // a frame that is not on the screen has no first paint
}
