import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RawSecret } from "#certs/objects.ts";
import { STATUS_KEY_HEADER, STATUS_SECRET, statusKeyIn, statusSecretData } from "#lib/documents/status-page.ts";
import { describeError, ifFound, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { NO_VERSION } from "#lib/kube/leader-client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";

interface StatusKeyDeps {
  readonly client: Pick<KubeClient, "get" | "apply">;
  readonly namespace: string;
  readonly log: Logger;
}

const KEY_BYTES = 32;
const FIELD_MANAGER = "switchback-status";
/** Minimum time between the starts of two reads of the Secret, whatever requests arrive. */
const FRESH_MS = 1_000;
const TIMEOUT_MS = 2_000;

const UNKNOWN = `the key in the Secret ${STATUS_SECRET} is not known to this controller yet`;
const WRONG =
  `send the key in the Secret ${STATUS_SECRET} as the header ${STATUS_KEY_HEADER}; the ClusterRole switchback-reader ` +
  "grants reading it";

/**
 * The key of `/status`. Every replica reads it when a request arrives, and creates it if it is missing. The first
 * replica wins, because a write is valid only for the version that the replica has read. To replace the key, delete it.
 * While the API server is unavailable, the last key stays valid.
 */
export class StatusKey {
  readonly #deps: StatusKeyDeps;
  /** SHA-256 of the key. The key itself is not kept. */
  #digest: Buffer | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading = Promise.resolve();

  constructor(deps: StatusKeyDeps) {
    this.#deps = deps;
  }

  /** The reason to refuse a request with these headers, on one line; undefined: it has the key. */
  async refusal(headers: IncomingHttpHeaders): Promise<string | undefined> {
    await this.refresh();
    if (this.#digest === undefined) return UNKNOWN;
    const sent = digestOf(String(headers[STATUS_KEY_HEADER] ?? ""));
    return timingSafeEqual(sent, this.#digest) ? undefined : WRONG;
  }

  /** Reads the key, or creates it. */
  async refresh(): Promise<void> {
    if (steadyNow() - this.#readAt >= FRESH_MS) {
      this.#readAt = steadyNow();
      this.#reading = this.#read();
    }
    await this.#reading;
  }

  async #read(): Promise<void> {
    const { client, namespace, log } = this.#deps;
    const path = corePath("secrets", namespace, STATUS_SECRET);
    try {
      const secret = await ifFound(client.get<RawSecret>(path, {}, { timeoutMs: TIMEOUT_MS }));
      const key = secret && statusKeyIn(secret);
      this.#digest = key === undefined ? undefined : digestOf(key);
      if (key === undefined) await this.#create(path, secret?.metadata.resourceVersion);
    } catch (error) {
      log.warn({ error: describeError(error) }, "status: cannot read or create the key");
    }
  }

  /** Writes a new key to this version of the Secret, or creates the Secret. Another replica may be faster. */
  async #create(path: string, resourceVersion = NO_VERSION): Promise<void> {
    const { client, namespace, log } = this.#deps;
    const key = randomBytes(KEY_BYTES).toString("base64url");
    const metadata = { name: STATUS_SECRET, namespace, resourceVersion };
    const secret = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data: statusSecretData(key) };
    try {
      await client.apply(path, secret, { fieldManager: FIELD_MANAGER, force: true });
      this.#digest = digestOf(key);
      log.info({ secret: STATUS_SECRET }, "status: created a new key");
    } catch (error) {
      if (statusOf(error) !== 409) throw error;
    }
  }
}

function digestOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
