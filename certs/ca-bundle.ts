import { readableAuthorities } from "./pem.ts";

/** The webhook configuration whose `caBundle` fields Switchback maintains. */
export const WEBHOOK_CONFIGURATION = "switchback-webhook";

/** The webhook configuration when it was read. */
export interface BundleView {
  /** The resourceVersion to pass to `write`. */
  readonly version: string;
  /** Every webhook entry, in order, with its caBundle as PEM text, or "" if it has none. */
  readonly entries: readonly { readonly name: string; readonly bundle: string }[];
}

/** Where the bundle is published. */
export interface BundleWriter {
  /** Undefined if there is no webhook configuration. Throws if the read fails. */
  read(): Promise<BundleView | undefined>;
  /**
   * Writes `bundle` into every entry of `view`, and nothing else. Never creates a configuration or an entry.
   * Throws `kube-status` if either has changed or been deleted since `view` was read.
   */
  write(bundle: string, view: BundleView): Promise<void>;
  /** Calls `changed` whenever the configuration may have changed, until `signal` aborts. */
  watch(changed: () => void, signal: AbortSignal): void;
}

/** Whether every entry holds exactly `bundle`. */
export function holdsBundle(view: BundleView, bundle: string): boolean {
  return view.entries.every((entry) => entry.bundle === bundle);
}

/** The CAs that API servers may currently trust for the webhook. */
export function authoritiesIn(view: BundleView) {
  return view.entries.flatMap((entry) => readableAuthorities(entry.bundle));
}
