// Numbers and times as the page writes them (reports/quantity.py).
function quantity(value, unit) {
  if (unit === "ratio") return `${(100 * value).toFixed(value && Math.abs(value) < 0.01 ? 2 : 1)} %`;
  if (unit === "bytes" || unit === "bytes/s") {
    const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    const step = Math.abs(value) < 1 ? 0 : Math.min(Math.floor(Math.log2(Math.abs(value)) / 10), names.length - 1);
    return `${(value / 1024 ** step).toFixed(step ? 1 : 0)} ${names[step]}${unit.slice(5)}`;
  }
  if (unit === "seconds") return duration(value);
  const plain = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return unit === "1/s" ? `${plain}/s` : unit && unit !== "1" ? `${plain} ${unit}` : plain;
}

// The two largest units that fit.
function duration(seconds) {
  if (Math.abs(seconds) < 60) return `${Number(seconds.toPrecision(3))} s`;
  const whole = Math.round(Math.abs(seconds));
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([count]) => count);
  const shown = parts.slice(first, first + 2).filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ");
  return seconds < 0 ? `-${shown}` : shown;
}

function moment(seconds, clock) {
  if (clock === "utc" || clock === "local") {
    const time = new Date(Math.floor(seconds) * 1000);
    const words = Number.isNaN(time.getTime()) ? `${seconds} s` : time.toISOString().slice(0, 19).replace("T", " ");
    return clock === "utc" ? `${words} UTC` : words;
  }
  if (clock === "day") {
    const two = (part) => String(part).padStart(2, "0");
    const whole = Math.floor(seconds);
    const rest = ((whole % 86400) + 86400) % 86400;
    const day = whole >= 86400 ? ` (+${Math.floor(whole / 86400)} d)` : "";
    return `${two(Math.floor(rest / 3600))}:${two(Math.floor(rest / 60) % 60)}:${two(rest % 60)}${day}`;
  }
  if (clock === "session") return `${seconds.toFixed(0)} s into the session`;
  return clock === "boot" ? `${seconds.toFixed(1)} s after boot` : `sample ${Number(seconds.toPrecision(6))}`;
}
