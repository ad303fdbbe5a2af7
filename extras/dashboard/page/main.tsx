import { render } from "preact";
import { printable } from "#lib/errors/printable.ts";
import type { FeedMessage } from "../server/messages.ts";
import { App } from "./app.tsx";
import { PageState } from "./state.ts";

const RELOAD_MS = 5_000;

/**
 * A status that cannot be drawn, as of another release, must not leave the one before on the page as if it were live.
 */
function sayFault(fault: unknown): void {
  // Of browsers' own notices, such as that of a ResizeObserver, there is no error.
  if (!(fault instanceof Error)) return;
  document.body.textContent = printable(`This page cannot show the status (${fault}). It tries again.`);
  setTimeout(() => location.reload(), RELOAD_MS);
}

/** Follows what the command sends. The browser connects again by itself, also after the machine has slept. */
function followFeed(state: PageState): void {
  const events = new EventSource("events");
  events.onmessage = ({ data }) => state.take(JSON.parse(data) as FeedMessage);
  events.onerror = () => state.update({ connected: false });
  void fetch("codes.json")
    .then(async (response) => state.update({ advice: await response.json() }))
    .catch(() => {
      // The reasons are shown without their remedies.
    });
}

addEventListener("error", ({ error }) => sayFault(error));
addEventListener("unhandledrejection", ({ reason }) => sayFault(reason));

const state = new PageState();
followFeed(state);
render(<App state={state} />, document.body);
