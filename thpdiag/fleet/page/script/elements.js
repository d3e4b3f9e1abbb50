// Elements with text; what the page tells comes out as letters, whatever it is.
function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

function labelled(words, control) {
  const label = element("label", words);
  label.append(control);
  return label;
}

function button(words, pressed) {
  const made = element("button", words, { type: "button" });
  made.addEventListener("click", pressed);
  return made;
}

const counted = new Intl.NumberFormat("en");
