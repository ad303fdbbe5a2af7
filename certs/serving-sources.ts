import { readFile } from "node:fs/promises";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type RawSecret, secretTextOf, TLS_SECRET } from "./objects.ts";
import type { PemPair } from "./pem.ts";
import type { ServingSource } from "./serving.ts";

/** How often the files are read. The kubelet itself updates a mounted Secret about once a minute. */
const POLL_MS = 10_000;

/** Watches the TLS Secret in Switchback's namespace by name. The webhook may read no other Secret. */
export function secretSource(
  client: Pick<KubeClient, "get" | "stream">,
  namespace: string,
  log: Logger,
): ServingSource {
  return {
    start(found) {
      return watchObjects<PemPair>({
        client,
        path: corePath("secrets", namespace),
        fieldSelector: `metadata.name=${TLS_SECRET}`,
        project: (raw) => {
          const data = secretTextOf(raw as RawSecret);
          return { cert: data["tls.crt"] ?? "", key: data["tls.key"] ?? "" };
        },
        onChange: ({ after }) => found(after ?? { code: "pair-missing", text: `Secret ${TLS_SECRET} is missing` }),
        log,
      });
    },
  };
}

/** Reads the pair from two files, again and again. A watch on them would miss the kubelet's swap of `..data`. */
export function fileSource(certFile: string, keyFile: string): ServingSource {
  return {
    start(found) {
      const poll = new Reconciler({
        reconcile: async () => {
          const read = Promise.all([readFile(certFile, "utf8"), readFile(keyFile, "utf8")]);
          const failed = (error: unknown) => ({ code: "pair-missing", text: describeError(error) });
          found(await read.then(([cert, key]) => ({ cert, key }), failed));
          return { requeueAfter: POLL_MS };
        },
      });
      poll.enqueue();
      return poll;
    },
  };
}
