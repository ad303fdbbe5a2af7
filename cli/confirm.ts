import { z } from "zod";
import { SwitchbackError, statusOf } from "../errors/errors.ts";
import { CONFIRM_KEY, HOLD_KEY } from "../hostmap/metadata-keys.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import { corePath } from "../kube/paths.ts";
import { INDEX_NAME } from "../snapshot/map-format.ts";
import { ask } from "./ask.ts";
import type { CliContext } from "./context.ts";

interface ConfirmFlags {
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly yes?: boolean;
}

interface IndexObject {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
}

/**
 * Confirms a held removal: writes the hold's id to the index as an annotation, with the caller's own permissions. The leading
 * controller acts on it. The id of an earlier hold has no effect.
 */
export async function confirm(flags: ConfirmFlags, { env, stdout }: CliContext): Promise<void> {
  const client = await connect(connectOptionsFrom(env, flags));
  try {
    const path = corePath("configmaps", flags.namespace, INDEX_NAME);
    const hold = parseHold(
      (await readIndex(() => client.get<IndexObject>(path), flags.namespace)).metadata.annotations?.[HOLD_KEY],
    );
    if (hold === undefined) {
      stdout.write("no removal is held\n");
      return;
    }
    stdout.write(`${hold.names} of ${hold.of} names are held until ${new Date(hold.until).toISOString()}\n`);
    if (!flags.yes && !(await ask("remove them now? [y/N] "))) {
      stdout.write("nothing changed\n");
      return;
    }
    await client.mergePatch(
      path,
      { metadata: { annotations: { [CONFIRM_KEY]: hold.id } } },
      { fieldManager: "switchback-confirm" },
    );
    stdout.write("confirmed\n");
  } finally {
    client.close();
  }
}

async function readIndex(read: () => Promise<IndexObject>, namespace: string): Promise<IndexObject> {
  try {
    return await read();
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
    const message = `ConfigMap ${INDEX_NAME} not found in namespace ${namespace}; is Switchback installed there? (--namespace)`;
    throw new SwitchbackError("input-invalid", message);
  }
}

/** Anybody who may write the index may have edited the annotation. */
const holdSchema = z.object({
  id: z.string().min(1),
  // The range of Date (ECMA-262, 21.4.1.1).
  until: z.number().min(0).max(8.64e15),
  names: z.number(),
  of: z.number(),
});

function parseHold(text: string | undefined): z.infer<typeof holdSchema> | undefined {
  if (text === undefined) return undefined;
  try {
    return holdSchema.parse(JSON.parse(text));
  } catch {
    throw new SwitchbackError(
      "data-corrupt",
      `annotation ${HOLD_KEY} is invalid: ${JSON.stringify(text.slice(0, 200))}`,
    );
  }
}
