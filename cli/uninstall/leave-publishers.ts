import { createPublisher } from "#extras/publishers/create.ts";
import { removePublisher } from "#extras/publishers/remove.ts";
import { publishersSchema } from "#lib/config/publishers.ts";
import { PublisherStateStore, readPublisherStates } from "#lib/documents/publisher-state-store.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { attempt, renderFlaw } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";

interface LeaveOptions {
  readonly client: KubeClient;
  /** Where Switchback is installed. */
  readonly namespace: string;
  /** The section `publishers` of its configuration, as it is there. */
  readonly settings: unknown;
  /** Whether this process resolves names as the cluster's pods do. */
  readonly canAsk: boolean;
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly say: (line: string) => void;
}

/**
 * Takes out what each publisher has written, while proxies and front Services still serve: running pods go on with
 * an answer of the cluster's DNS until it stops giving it. Throws `still-held` if it does not.
 */
export async function leavePublishers(options: LeaveOptions): Promise<void> {
  const { client, namespace } = options;
  const states = await readPublisherStates(client, namespace);
  if (states.size === 0) return;
  const { value: publishers, flaw } = attempt(publishersSchema, options.settings ?? {});
  if (flaw !== undefined) {
    const message = "the settings of the publishers are of another version: use that version's uninstall";
    throw new SwitchbackError("data-corrupt", message, { cause: renderFlaw(flaw) });
  }
  for (const name of states.keys()) {
    const publisher = createPublisher(name, { publishers, namespace }, client);
    if (publisher === undefined) {
      throw new SwitchbackError(
        "still-held",
        `the publisher ${name} is of another version: use that version's uninstall`,
      );
    }
    const store = new PublisherStateStore(client, namespace, name);
    await removePublisher({ ...options, publisher, store });
  }
}
