import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RawSecret } from "#certs/objects.ts";
import { STATUS_KEY_HEADER, STATUS_SECRET, statusKeyIn, statusSecretData } from "#lib/documents/status-page.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";

interface StatusKeyDeps {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly log: Logger;
}

/** The part of the Secret that is kept in memory; the key itself is not. */
interface Seen {
  readonly version: string;
  /** SHA-256 of the key; undefined if the Secret has no usable key. */
  readonly digest: Buffer | undefined;
}

const KEY_BYTES = 32;
const FIELD_MANAGER = "switchback-status";
const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** Minimum time between two writes, if somebody keeps removing the key. */
const GAP_MS = 1_000;

const UNKNOWN = `the key in the Secret ${STATUS_SECRET} is not known to this controller yet`;
const WRONG =
  `send the key in the Secret ${STATUS_SECRET} as the header ${STATUS_KEY_HEADER}; the Role switchback-operator ` +
  "grants reading it";

/**
 * Follows the key of `/status`, and creates it if it is missing. Every replica serves the page, so every replica does
 * this. The first replica wins, because a write is valid only for the version that the replica has seen. To replace
 * the key, delete it: a deleted key is refused at once. While the API server is unavailable, the last key stays
 * valid.
 */
export class StatusKey {
  readonly #deps: StatusKeyDeps;
  readonly #reconciler: Reconciler;
  #informer: Informer<Seen> | undefined;

  constructor(deps: StatusKeyDeps) {
    this.#deps = deps;
    this.#reconciler = new Reconciler({
      reconcile: () => this.#reconcile(),
      retry: {
        backoff: createBackoff(FIRST_RETRY_MS, LAST_RETRY_MS, Math.random),
        onError: (error) => deps.log.warn({ error: describeError(error) }, "status: cannot create the key, will retry"),
      },
      pauseMs: () => GAP_MS,
    });
  }

  start(): void {
    const { client, namespace, log } = this.#deps;
    this.#informer = watchObjects<Seen, RawSecret>({
      client,
      path: corePath("secrets", namespace),
      fieldSelector: `metadata.name=${STATUS_SECRET}`,
      project: (secret) => {
        const key = statusKeyIn(secret);
        return { version: secret.metadata.resourceVersion, digest: key === undefined ? undefined : digestOf(key) };
      },
      onChange: () => this.#reconciler.enqueue(),
      onSynced: () => this.#reconciler.enqueue(),
      log,
    });
  }

  /** The reason to refuse a request with these headers, on one line; undefined: it has the key. */
  refusal(headers: IncomingHttpHeaders): string | undefined {
    const expected = this.#seen?.digest;
    if (expected === undefined) return UNKNOWN;
    const sent = digestOf(String(headers[STATUS_KEY_HEADER] ?? ""));
    return timingSafeEqual(sent, expected) ? undefined : WRONG;
  }

  async stop(): Promise<void> {
    await Promise.all([this.#informer?.stop(), this.#reconciler.stop()]);
  }

  get #seen(): Seen | undefined {
    return this.#informer?.objects().values().next().value;
  }

  async #reconcile(): Promise<undefined> {
    if (this.#informer?.state.synced !== true || this.#seen?.digest !== undefined) return;
    await createKey(this.#deps, this.#seen?.version);
  }
}

/**
 * Writes a new key to this version of the Secret, or creates the Secret. Does nothing if another replica was faster.
 */
async function createKey({ client, namespace, log }: StatusKeyDeps, version = NO_VERSION): Promise<void> {
  const metadata = { name: STATUS_SECRET, namespace, resourceVersion: version };
  const data = statusSecretData(randomBytes(KEY_BYTES).toString("base64url"));
  const secret = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data };
  try {
    const path = corePath("secrets", namespace, STATUS_SECRET);
    await client.apply(path, secret, { fieldManager: FIELD_MANAGER, force: true });
    log.info({ secret: STATUS_SECRET }, "status: created a new key");
  } catch (error) {
    if (statusOf(error) !== 409) throw error;
  }
}

function digestOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
