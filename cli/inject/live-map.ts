import type { PublishedMap } from "#hostmap/types.ts";
import { readMap } from "#lib/documents/map-reader.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";

/** Reads the map that a cluster publishes. Throws `data-corrupt` if the map is missing or cannot be read. */
export async function readLiveMap(
  flags: ConnectFlags & { readonly namespace: string },
  env: CliContext["env"],
): Promise<PublishedMap> {
  const client = await connect(connectOptions(flags, env));
  try {
    const map = await readMap(client, flags.namespace);
    if (isMap(map)) return map;
    throw new SwitchbackError("data-corrupt", `the map in namespace ${flags.namespace} is not usable: ${map.text}`);
  } finally {
    client.close();
  }
}

function connectOptions(flags: ConnectFlags, env: CliContext["env"]): Parameters<typeof connect>[0] {
  try {
    return connectOptionsFrom(env, flags);
  } catch (error) {
    const text = `${describeError(error)}; with --hosts FILE, inject needs no cluster`;
    throw new SwitchbackError("config-invalid", text);
  }
}
