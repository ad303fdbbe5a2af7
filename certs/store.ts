/** The leader's alone: CA keys and certificates, and the times of a rotation's steps. */
export const CA_SECRET = "switchback-ca";
/** What the webhook serves: `tls.crt`, `tls.key`, and in `ca.crt` the CAs that were trusted when it was issued. */
export const TLS_SECRET = "switchback-webhook-tls";

export type SecretName = typeof CA_SECRET | typeof TLS_SECRET;

/** A Secret's content as text, and the version to give back when writing it. */
export interface SecretContent {
  readonly data: Readonly<Record<string, string>>;
  readonly version: string;
}

/** Where the two Secrets live. All state of a rotation is in them, so that any leader can go on with it. */
export interface SecretStore {
  /** Undefined: there is no such Secret. Throws when that is not known. */
  read(name: SecretName): Promise<SecretContent | undefined>;
  /**
   * Replaces the content. `expected` is what was read before (undefined: there was none); throws `kube-status` 409 or 404
   * when someone else has written or deleted it since.
   */
  write(name: SecretName, data: Readonly<Record<string, string>>, expected: SecretContent | undefined): Promise<void>;
  /** Calls `changed` whenever either Secret may have changed, until `signal` aborts. */
  watch(changed: () => void, signal: AbortSignal): void;
}
