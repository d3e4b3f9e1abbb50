// Sizes, times and names as people read them.
"use strict";

function bytes(count) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (count >= 1024 && place < units.length - 1) {
    count /= 1024;
    place += 1;
  }
  return `${place ? count.toFixed(count < 10 ? 1 : 0) : count} ${units[place]}`;
}

// Seconds in at most two units.
function duration(seconds) {
  const whole = Math.round(seconds);
  const parts = [[Math.floor(whole / 3600), "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

// A name with what would hide in it, or turn it around, written out.
function visible(name) {
  return name.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
}
