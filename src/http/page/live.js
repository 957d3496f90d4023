// Change events: by server-sent events, else by polling.

import { server } from "./api.js";

const POLL_MS = 3000;
/** Number of polls after which the stream is tried again. */
const POLLS = 8;
const TYPES = ["started", "changed", "merged", "split", "revived", "forgotten", "tagged"];

/**
 * Calls `onEvent(event)` for each change event, or `onPoll()` every few seconds if there is no
 * stream, and `onPoll(true)` after a time without it. `onState("stream" | "poll" | "wait")`
 * reports the mode.
 */
export class Live {
  onEvent; onPoll; onState;

  constructor({ onEvent, onPoll, onState }) {
    Object.assign(this, { onEvent, onPoll, onState });
    this.source = null;
    this.timer = 0;
    /** Whether the page is hidden and listens once it is shown. */
    this.isPaused = false;
    document.addEventListener("visibilitychange", () => {
      if (!this.source && !this.isPaused) return;
      this.stop();
      this.listen(true);
    });
  }

  start(hasStream) {
    this.stop();
    if (hasStream) this.listen();
    else this.poll();
  }

  stop() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
    this.timer = 0;
    this.isPaused = false;
  }

  /**
   * Opens the stream, after a time without it if `isMissed`. A hidden page has none: over HTTP/1.1
   * a browser opens six connections to a server, which its tabs share, and so do the pages that it
   * keeps for the back button.
   */
  listen(isMissed = false) {
    this.isPaused = document.hidden;
    if (this.isPaused) return;
    const source = new EventSource("/v1/changes/stream");
    this.source = source;
    let wasOpen = isMissed;
    source.onopen = () => {
      this.onState("stream");
      // After a time without it, polls once for changes that were missed.
      if (wasOpen) this.onPoll(true).catch(() => {});
      wasOpen = true;
    };
    source.onerror = () => {
      if (this.source !== source) return;
      if (source.readyState === EventSource.CLOSED) {
        this.stop();
        this.poll();
      } else {
        this.onState("wait");
      }
    };
    for (const type of TYPES) {
      source.addEventListener(type, (message) => this.onEvent(JSON.parse(message.data)));
    }
  }

  poll() {
    this.onState("poll");
    let polls = 0;
    const next = async () => {
      if (!document.hidden) await this.onPoll().catch(() => {});
      polls += 1;
      // `stop` was called meanwhile.
      if (!this.timer) return;
      // The stream may be available again.
      if (polls === POLLS) this.start(true);
      else this.timer = setTimeout(next, POLL_MS);
    };
    this.timer = setTimeout(next, POLL_MS);
  }
}

/** Calls `probe` with exponential backoff while the server is offline. */
export function retryWhileOffline(probe) {
  let delay = 1000;
  let timer = 0;
  const retry = () => {
    timer = setTimeout(() => {
      delay = Math.min(delay * 2, 15_000);
      probe().catch(() => retry());
    }, delay);
  };
  server.addEventListener("offline", () => {
    delay = 1000;
    clearTimeout(timer);
    retry();
  });
  server.addEventListener("online", () => clearTimeout(timer));
}
