import { render } from "preact";
import { printable } from "#lib/errors/printable.ts";
import { App } from "./app.tsx";
import { followFeed } from "./feed.ts";
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

addEventListener("error", ({ error }) => sayFault(error));
addEventListener("unhandledrejection", ({ reason }) => sayFault(reason));

const state = new PageState();
followFeed(state);
render(<App state={state} />, document.body);
