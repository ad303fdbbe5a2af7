/** Only the leader reads it: CA keys and certificates, and the times of a rotation's steps. */
export const CA_SECRET = "switchback-ca";
/** What the webhook serves: `tls.crt`, `tls.key`, and in `ca.crt` the CAs that were trusted when it was issued. */
export const TLS_SECRET = "switchback-webhook-tls";

export type SecretName = typeof CA_SECRET | typeof TLS_SECRET;

/** A Secret's content as text, and the resourceVersion to pass to `write`. */
export interface SecretContent {
  readonly data: Readonly<Record<string, string>>;
  readonly version: string;
}

/** Stores the two Secrets. They have the whole state of a rotation, so that any leader can continue it. */
export interface SecretStore {
  /** Undefined if there is no such Secret. Throws if the read fails. */
  read(name: SecretName): Promise<SecretContent | undefined>;
  /**
   * Replaces the content. `expected` is the content that was read before, or undefined if there was none. Throws
   * `kube-status` 409 or 404 if another writer has changed or deleted it since.
   */
  write(name: SecretName, data: Readonly<Record<string, string>>, expected: SecretContent | undefined): Promise<void>;
  /** Calls `changed` whenever either Secret may have changed, until `signal` aborts. */
  watch(changed: () => void, signal: AbortSignal): void;
}
