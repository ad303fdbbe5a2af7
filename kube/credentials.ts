import type { Agent } from "node:http";

/** What a TLS connection to the API server needs. Held in memory only, never logged. */
interface TlsMaterial {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
  passphrase?: string;
  servername?: string;
  rejectUnauthorized?: boolean;
}

/** How to speak to the API server at this moment. */
export interface Access {
  /** `https://host:port/prefix`. */
  readonly server: URL;
  /** Authorization and impersonation headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
  /** A ready agent, where a kubeconfig names a proxy; else the transport keeps its own. */
  readonly agent?: Agent;
}

/** Where access comes from, kept fresh. */
export interface Credentials {
  current(): Promise<Access>;
  /** Called when `used` was answered with 401. Gives other access if there is any, else `used` itself. */
  renew(used: Access): Promise<Access>;
}

/** Credentials are read again when they are older than this: a pod's token is rotated under it, and so may a CA be. */
const CREDENTIALS_MAX_AGE_MS = 60_000;
/** A server that keeps answering 401 does not make us run an exec plugin more often than this. */
const REJECTED_EVERY_MS = 5_000;

/**
 * Keeps what `load` gives for a minute. `rejected` tells `load` that the server did not accept the last one.
 * A load that fails while older access is at hand leaves that in use: half-written files must not stop us.
 */
export function cachedCredentials(load: (rejected: boolean) => Promise<Access>, now: () => number): Credentials {
  let access: Access | undefined;
  let loadedAt = 0;
  let rejectedAt = Number.NEGATIVE_INFINITY;
  let loading: Promise<Access> | undefined;

  async function reload(rejected: boolean): Promise<Access> {
    try {
      const next = await load(rejected);
      if (access === undefined || !sameAccess(access, next)) access = next;
      return access;
    } catch (error) {
      if (access === undefined) throw error;
      return access;
    } finally {
      loadedAt = now();
      loading = undefined;
    }
  }

  function shared(rejected: boolean): Promise<Access> {
    loading ??= reload(rejected);
    return loading;
  }

  return {
    async current() {
      if (access !== undefined && now() - loadedAt < CREDENTIALS_MAX_AGE_MS) return access;
      return shared(false);
    },
    async renew(used) {
      if (access !== undefined && access !== used) return access;
      if (now() - rejectedAt < REJECTED_EVERY_MS) return used;
      rejectedAt = now();
      return shared(true);
    },
  };
}

/** Whether two TLS set-ups may share connections. */
export function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function sameAccess(a: Access, b: Access): boolean {
  return (
    a.server.href === b.server.href &&
    JSON.stringify(a.headers) === JSON.stringify(b.headers) &&
    sameTls(a.tls, b.tls) &&
    (a.agent === undefined) === (b.agent === undefined)
  );
}
