// Follows a job until it ends; then the page is loaded again, which knows where to go. Without this script the page
// loads itself every few seconds.
"use strict";

const AGAIN = 5_000; // milliseconds until a server that refused the events is asked again

class Following {
  constructor(card) {
    this.card = card;
    this.state = card.dataset.state;
    this.begun = performance.now() - 1000 * Number(card.dataset.elapsed);
    this.trouble = document.getElementById("trouble");
    setInterval(() => this.tick(), 1000);
    this.listen();
  }

  listen() {
    const source = new EventSource(this.card.dataset.events);
    source.addEventListener("open", () => { this.trouble.hidden = true; });
    source.addEventListener("message", (event) => this.take(JSON.parse(event.data)));
    source.addEventListener("gone", () => location.reload());
    source.addEventListener("error", () => {
      this.trouble.hidden = false;
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.look(), AGAIN); // else it connects again itself
    });
    addEventListener("pagehide", () => source.close()); // else leaving would look like trouble
  }

  take({ state, stage, ahead }) {
    if (state !== "queued" && state !== "running") {
      location.reload();
      return;
    }
    if (state !== this.state) {
      this.state = state;
      this.begun = performance.now();
      document.getElementById("title").textContent = state === "running" ? "Being analyzed" : "Waiting for analysis";
      document.getElementById("doing").textContent = state === "running" ? "Analyzed for" : "Waiting for";
    }
    this.say(state === "running" ? stage || "beginning" : ahead ? `${ahead} ${ahead === 1 ? "analysis is" : "analyses are"} before it` : "next in the queue");
    this.tick();
  }

  // The events are refused: the page may be gone, its reader signed out, or the server behind a proxy away for a moment.
  async look() {
    const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
    if (answer && answer.status < 500) location.reload();
    else setTimeout(() => this.look(), AGAIN);
  }

  say(words) {
    const stage = document.getElementById("stage");
    if (stage.textContent !== words) stage.textContent = words;
  }

  tick() {
    document.getElementById("elapsed").textContent = duration((performance.now() - this.begun) / 1000);
  }
}

const card = document.getElementById("job");
if (card) new Following(card);
