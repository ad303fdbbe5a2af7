import { SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "./client.ts";

/**
 * No object ever has this version. An apply with it creates the object, and is rejected (409) if the object exists.
 */
export const NO_VERSION = "1";
/** The field manager of the leader's writes: with server-side apply, it owns their fields. */
export const FIELD_MANAGER = "switchback-controller";

const WRITES = ["apply", "mergePatch", "jsonPatch", "create", "replace", "delete"] as const;

/**
 * Returns a client that writes only while `isLeading` returns true. Then a write throws `term-over` and nothing is
 * sent. A write that is sent just before the Lease ends may arrive late. So each write has to name the resourceVersion
 * or uid that it is based on, and the next leader corrects what it does not want.
 */
export function leaderClient(client: KubeClient, isLeading: () => boolean): KubeClient {
  const guarded = Object.fromEntries(
    WRITES.map((verb) => [
      verb,
      async (...args: unknown[]) => {
        if (!isLeading()) throw new SwitchbackError("term-over", "this process no longer holds the Lease");
        return await (client[verb] as (...args: unknown[]) => Promise<unknown>)(...args);
      },
    ]),
  );
  return { ...client, ...guarded } as KubeClient;
}
