import { readableAuthorities } from "./pem.ts";

/** The webhook configuration whose `caBundle` fields are kept. */
export const WEBHOOK_CONFIGURATION = "switchback-webhook";

/** One look at the webhook configuration. */
export interface BundleView {
  /** The version to give back when writing. */
  readonly version: string;
  /** Every webhook entry, in its order, and its caBundle as PEM text, "" where it has none. */
  readonly entries: readonly { readonly name: string; readonly bundle: string }[];
}

/** Where the bundle is published. */
export interface BundleWriter {
  /** Undefined: there is no webhook configuration. Throws when that is not known. */
  read(): Promise<BundleView | undefined>;
  /**
   * Writes `bundle` into every entry of `view`, and nothing else. Never makes a configuration or an entry: throws
   * `kube-status` when either has changed or gone since `view` was read.
   */
  write(bundle: string, view: BundleView): Promise<void>;
  /** Calls `changed` whenever the configuration may have changed, until `signal` aborts. */
  watch(changed: () => void, signal: AbortSignal): void;
}

/** Whether every entry holds exactly `bundle`. */
export function holdsBundle(view: BundleView, bundle: string): boolean {
  return view.entries.every((entry) => entry.bundle === bundle);
}

/** The CAs that API servers may trust for us at the moment. */
export function authoritiesIn(view: BundleView) {
  return view.entries.flatMap((entry) => readableAuthorities(entry.bundle));
}
