import type { PublishedMap } from "#hostmap/types.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { readSnapshot } from "#lib/documents/read-map.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import { pause } from "#lib/kube/time.ts";
import type { CliContext } from "#lib/process/context.ts";

/** While the controller publishes, index and shards may differ for some milliseconds. */
const READ_TRIES = 5;
const READ_PAUSE_MS = 300;

/**
 * Reads the map that a cluster publishes. Throws `data-corrupt` if the map is missing, or if its parts still differ
 * after `READ_TRIES` reads.
 */
export async function readLiveMap(
  flags: ConnectFlags & { readonly namespace: string },
  env: CliContext["env"],
): Promise<PublishedMap> {
  const client = await connect(connectOptionsFrom(env, flags));
  try {
    let problem = "";
    for (let tries = 0; tries < READ_TRIES; tries += 1) {
      const { map } = await readSnapshot(client, flags.namespace);
      if (isMap(map)) return map;
      problem = map.text;
      await pause(READ_PAUSE_MS);
    }
    throw new SwitchbackError("data-corrupt", `the map in namespace ${flags.namespace} is not usable: ${problem}`);
  } finally {
    client.close();
  }
}
