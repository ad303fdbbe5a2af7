import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { Access } from "./credentials.ts";

/**
 * In-cluster configuration. Host and port come from KUBERNETES_SERVICE_HOST and _PORT. Tests can override the paths.
 */
export interface InCluster {
  host: string;
  port: string | number;
  tokenFile?: string;
  caFile?: string;
  namespaceFile?: string;
}

/** Where the kubelet mounts a pod's service account. */
const ROOT = "/var/run/secrets/kubernetes.io/serviceaccount";
export const TOKEN_FILE = `${ROOT}/token`;

/** Reads token and CA. Throws `config-invalid` if either is missing. */
export async function loadInCluster(from: InCluster): Promise<Access> {
  const token = (await readText(from.tokenFile ?? TOKEN_FILE)).trim();
  const caFile = from.caFile ?? `${ROOT}/ca.crt`;
  const ca = await readText(caFile);
  const host = isIPv6(from.host) ? `[${from.host}]` : from.host;
  return {
    server: new URL(`https://${host}:${from.port}`),
    headers: { authorization: `Bearer ${token}` },
    tls: { ca },
    from: { what: "the pod's service account", ca: caFile },
  };
}

/** The namespace of the pod. */
export async function inClusterNamespace(from: InCluster): Promise<string> {
  return (await readText(from.namespaceFile ?? `${ROOT}/namespace`)).trim();
}

async function readText(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new SwitchbackError("config-invalid", `the service account file ${path} cannot be read`, { cause });
  });
  if (text.trim() === "") throw new SwitchbackError("config-invalid", `the service account file ${path} is empty`);
  return text;
}
