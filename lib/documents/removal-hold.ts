import type * as v from "valibot";
import { CONFIRM_KEY, HOLD_KEY } from "#hostmap/metadata-keys.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { finite, number, object, text } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { MAP_NAME, type MapObject } from "./map-format.ts";

/** Anybody with the right to write the map may have edited the annotation. */
const holdSchema = object({
  id: text,
  // The range of Date (ECMA-262, 21.4.1.1).
  until: number(0, 8.64e15),
  names: finite,
  of: finite,
});

/** A held removal as it is read. `until` is in milliseconds since 1970. */
export type PublishedHold = v.InferOutput<typeof holdSchema>;

/**
 * Reads the held removal. Returns undefined if nothing is held. Throws `data-corrupt` for an annotation that is not
 * ours. Rejects with the client's errors: with status 404 if there is no map.
 */
export async function readHold(client: Pick<KubeClient, "get">, namespace: string): Promise<PublishedHold | undefined> {
  const path = corePath("configmaps", namespace, MAP_NAME);
  const { metadata } = await client.get<Partial<MapObject>>(path);
  if (metadata?.name !== MAP_NAME) {
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not the ConfigMap ${MAP_NAME}`);
  }
  const written = metadata.annotations?.[HOLD_KEY];
  if (written === undefined) return undefined;
  try {
    return parse(holdSchema, JSON.parse(written));
  } catch {
    throw new SwitchbackError(
      "data-corrupt",
      `annotation ${HOLD_KEY} is invalid: ${JSON.stringify(written.slice(0, 200))}`,
    );
  }
}

/** Writes to the map that the hold with this id is confirmed. */
export async function confirmHold(
  client: Pick<KubeClient, "mergePatch">,
  namespace: string,
  id: string,
): Promise<void> {
  const patch = { metadata: { annotations: { [CONFIRM_KEY]: id } } };
  await client.mergePatch(corePath("configmaps", namespace, MAP_NAME), patch, { fieldManager: "switchback-confirm" });
}
