import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { PemPair } from "./pem.ts";
import { TLS_SECRET } from "./secret-store.ts";
import { type RawSecret, secretTextOf } from "./secret-store-kube.ts";
import type { ServingSource } from "./serving.ts";

const MISSING = { code: "secret-missing", text: `Secret ${TLS_SECRET} is missing` };

/** Watches the TLS Secret in Switchback's namespace by name. The webhook may read no other Secret. */
export function secretSource(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespace: string;
  readonly log: Logger;
}): ServingSource {
  return {
    start(found) {
      return watchObjects<PemPair>({
        client: deps.client,
        path: corePath("secrets", deps.namespace),
        fieldSelector: `metadata.name=${TLS_SECRET}`,
        project: (raw) => {
          const data = secretTextOf(raw as RawSecret);
          return { cert: data["tls.crt"] ?? "", key: data["tls.key"] ?? "" };
        },
        onChange: ({ after }) => found(after ?? MISSING),
        log: deps.log,
      });
    },
  };
}
