import type { StepOptions, UninstallPart } from "#extras/uninstall-part.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { attempt, renderFlaw } from "#lib/errors/validation.ts";
import { PUBLISHERS_SECTION } from "./config.ts";
import { createPublisher } from "./create.ts";
import { publisherStateName } from "./publisher-state.ts";
import { PublisherStateStore, readPublisherStates } from "./publisher-state-store.ts";
import { removePublisher } from "./remove.ts";

export const PUBLISHERS_UNINSTALL: UninstallPart = {
  step: () => ({ plan: "The publishers, if any, take out what they have written.", run: leavePublishers }),
  configMaps: async (client, namespace) =>
    [...(await readPublisherStates(client, namespace)).keys()].map(publisherStateName),
};

/**
 * Takes out what each publisher has written, while proxies and front Services still serve: running pods use answers
 * of the cluster's DNS until it stops giving them. Throws `still-held` if it does not stop, or if a publisher is of
 * another version.
 */
export async function leavePublishers(options: StepOptions): Promise<undefined> {
  const { client, namespace } = options;
  const states = await readPublisherStates(client, namespace);
  if (states.size === 0) return undefined;
  const { value: publishers, flaw } = attempt(PUBLISHERS_SECTION.schema, options.sections.publishers);
  if (flaw !== undefined) {
    const message = "the settings of the publishers are of another version: use that version's uninstall";
    throw new SwitchbackError("data-corrupt", message, { cause: renderFlaw(flaw) });
  }
  for (const name of states.keys()) {
    const publisher = createPublisher(name, { publishers, namespace }, client);
    const store = new PublisherStateStore(client, namespace, name);
    await removePublisher({ ...options, publisher, store });
  }
  return undefined;
}
