import { readFile } from "node:fs/promises";
import type { Agent } from "node:http";
import { isIPv6 } from "node:net";
import { SwitchbackError } from "#lib/errors/errors.ts";

/** The TLS options of a connection to the API server. Kept in memory only, never logged. */
interface TlsMaterial {
  ca?: string | Buffer;
  cert?: string | Buffer;
  key?: string | Buffer;
  passphrase?: string;
  servername?: string;
  rejectUnauthorized?: boolean;
}

/** The current URL, headers and TLS options for the API server. */
export interface Access {
  /** `https://host:port/prefix`. */
  readonly server: URL;
  /** Authorization and impersonation headers. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
  /** The origin of this access, for messages. */
  readonly from?: {
    /** The context's name. Missing in a pod. */
    readonly context?: string;
    /** `context "x" of kubeconfig /home/me/.kube/config`. */
    readonly what: string;
  };
  /** The agent for the proxy of a kubeconfig. Without it, the transport uses its own agent. */
  readonly agent?: Agent;
}

/** In-cluster configuration. Host and port come from KUBERNETES_SERVICE_HOST and _PORT. */
export interface InCluster {
  host: string;
  port: string | number;
  /** Default: where the kubelet mounts a pod's service account. */
  folder?: string;
}

const FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";
export const TOKEN_FILE = `${FOLDER}/token`;

/** Reads token and CA. Throws `config-invalid` if either is missing. */
export async function loadInCluster({ host: name, port, folder = FOLDER }: InCluster): Promise<Access> {
  const token = (await readText(`${folder}/token`)).trim();
  const ca = await readText(`${folder}/ca.crt`);
  const host = isIPv6(name) ? `[${name}]` : name;
  return {
    server: new URL(`https://${host}:${port}`),
    headers: { authorization: `Bearer ${token}` },
    tls: { ca },
    from: { what: "the pod's service account" },
  };
}

/** The namespace of the pod. */
export async function inClusterNamespace({ folder = FOLDER }: InCluster): Promise<string> {
  return (await readText(`${folder}/namespace`)).trim();
}

async function readText(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new SwitchbackError("config-invalid", `the service account file ${path} cannot be read`, { cause });
  });
  if (text.trim() === "") throw new SwitchbackError("config-invalid", `the service account file ${path} is empty`);
  return text;
}

/** A source of access that refreshes itself. */
export interface Credentials {
  current(): Promise<Access>;
  /** Called after the server rejected `used` with 401. Returns new access if there is any, otherwise `used`. */
  renew(used: Access): Promise<Access>;
}

/**
 * Maximum age of credentials before they are reloaded. The kubelet rotates a pod's token, and the CA may change too.
 */
const CREDENTIALS_MAX_AGE_MS = 60_000;
/** Minimum time between two reloads after a 401, so that an exec plugin does not run more often. */
const REJECTED_EVERY_MS = 5_000;

/**
 * Caches the result of `load` for a minute. `rejected` means that the server rejected the previous one. If a load
 * fails, the previous access stays in use: a partly written file must not stop the process.
 */
export function cachedCredentials(load: (rejected: boolean) => Promise<Access>, now: () => number): Credentials {
  let access: Access | undefined;
  let loadedAt = 0;
  let rejectedAt = Number.NEGATIVE_INFINITY;
  let loading: Promise<Access> | undefined;

  async function reload(rejected: boolean): Promise<Access> {
    try {
      access = await load(rejected);
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

/** Whether connections with these TLS options can be shared. */
export function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  // Usually this is the same object. Every request makes this check.
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
