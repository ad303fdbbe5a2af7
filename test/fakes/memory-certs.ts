import type { BundleView, BundleWriter } from "#certs/ca-bundle.ts";
import type { SecretContent, SecretName, SecretStore } from "#certs/secret-store.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";

// The places of the certificates in memory, with compare-and-swap and watches as in a cluster, but without delay.

/** A webhook configuration in memory. */
export interface MemoryBundle extends BundleWriter {
  /** Sets the configuration as another client would. Undefined deletes it. */
  set(entries: BundleView["entries"] | undefined): void;
}

export function createMemoryBundle(entries: BundleView["entries"] | undefined): MemoryBundle {
  let view: BundleView | undefined;
  let version = 0;
  const watchers = new Set<() => void>();
  const set = (next: BundleView["entries"] | undefined) => {
    version += 1;
    view = next && { version: String(version), entries: next };
    for (const changed of watchers) changed();
  };
  set(entries);
  return {
    set,
    async read() {
      return view;
    },
    async write(bundle, { version: expected }) {
      if (view?.version !== expected) {
        throw new SwitchbackError("kube-status", "the webhook configuration has changed", { status: 409 });
      }
      set(view.entries.map(({ name }) => ({ name, bundle })));
    },
    watch(changed, signal) {
      watchers.add(changed);
      signal.addEventListener("abort", () => watchers.delete(changed), { once: true });
    },
  };
}

/** The two Secrets in memory. */
export interface MemorySecretStore extends SecretStore {
  /** Deletes a Secret, as `kubectl delete secret` would. */
  remove(name: SecretName): void;
}

export function createMemorySecretStore(): MemorySecretStore {
  const secrets = new Map<SecretName, SecretContent>();
  const watchers = new Set<() => void>();
  let version = 0;
  const notify = () => {
    for (const changed of watchers) changed();
  };
  return {
    async read(name) {
      return secrets.get(name);
    },
    async write(name, data, expected) {
      if (secrets.get(name)?.version !== expected?.version) {
        throw new SwitchbackError("kube-status", `the Secret ${name} has changed`, { status: 409 });
      }
      version += 1;
      secrets.set(name, { data: { ...data }, version: String(version) });
      notify();
    },
    watch(changed, signal) {
      watchers.add(changed);
      signal.addEventListener("abort", () => watchers.delete(changed), { once: true });
    },
    remove(name) {
      if (secrets.delete(name)) notify();
    },
  };
}
