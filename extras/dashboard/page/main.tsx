import { render } from "preact";
import { printable } from "#lib/errors/printable.ts";
import type { FeedMessage } from "../server/messages.ts";
import { App } from "./app.tsx";
import { PageState } from "./state.ts";

const RELOAD_MS = 5_000;

/**
 * Shows an error in place of the page, and reloads. If a status cannot be drawn, such as one of another release, the
 * previous one must not stay on the page as if it were live.
 */
function sayFault(fault: unknown): void {
  // Browsers send such events for their own notices, too, for example of a ResizeObserver, but without an error.
  if (!(fault instanceof Error)) return;
  document.body.textContent = printable(`This page cannot show the status (${fault}). It tries again.`);
  setTimeout(() => location.reload(), RELOAD_MS);
}

/** Subscribes to the command's feed. The browser reconnects by itself, also after the machine has slept. */
function followFeed(state: PageState): void {
  const events = new EventSource("events");
  events.onmessage = ({ data }) => state.take(JSON.parse(data) as FeedMessage);
  events.onerror = () => state.update({ connected: false });
  void fetch("codes.json")
    .then(async (response) => state.update({ advice: await response.json() }))
    .catch(() => {
      // Without advice, reasons are shown without their remedies.
    });
}

addEventListener("error", ({ error }) => sayFault(error));
addEventListener("unhandledrejection", ({ reason }) => sayFault(reason));

const state = new PageState();
followFeed(state);
render(<App state={state} />, document.body);
