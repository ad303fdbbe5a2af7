import { MAP_NAME } from "#lib/documents/map-format.ts";
import { confirmHold, type PublishedHold, readHold } from "#lib/documents/removal-hold.ts";
import { SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { agree } from "./ask.ts";

interface ConfirmFlags extends ConnectFlags {
  readonly namespace: string;
  readonly yes?: boolean;
}

/**
 * Confirms a held removal: writes the hold's id to the map as an annotation, with the caller's own permissions. The
 * leading controller acts on it. The id of an earlier hold has no effect. Throws `declined` unless the answer is yes.
 */
export async function confirm(flags: ConfirmFlags, { env, stdout, progress }: CliContext): Promise<void> {
  const client = await connect(connectOptionsFrom(env, flags));
  try {
    const hold = await progress.during("reading the map", () => currentHold(client, flags.namespace));
    if (hold === undefined) {
      stdout.line("no removal is held");
      return;
    }
    stdout.line(`${hold.names} of ${hold.of} names are held until ${new Date(hold.until).toISOString()}`);
    if (!flags.yes) await agree("remove them now? [y/N] ");
    await progress.during("confirming", () => confirmHold(client, flags.namespace, hold.id));
    stdout.line("confirmed");
  } finally {
    client.close();
  }
}

async function currentHold(client: KubeClient, namespace: string): Promise<PublishedHold | undefined> {
  try {
    return await readHold(client, namespace);
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
    const missing = `ConfigMap ${MAP_NAME} not found in namespace ${namespace}`;
    throw new SwitchbackError("input-invalid", `${missing}; is Switchback installed there? (--namespace)`);
  }
}
