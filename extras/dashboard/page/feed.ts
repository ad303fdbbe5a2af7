import type { FeedMessage } from "../server/messages.ts";
import type { PageState } from "./state.ts";

/** Follows what the command sends. The browser connects again by itself, also after the machine has slept. */
export function followFeed(state: PageState): void {
  const events = new EventSource("events");
  events.onmessage = ({ data }) => state.take(JSON.parse(data) as FeedMessage);
  events.onerror = () => state.update({ connected: false });
  void fetch("codes.json")
    .then(async (response) => state.update({ advice: await response.json() }))
    .catch(() => {
      // The reasons are shown without their remedies.
    });
}
