import { generateKeyPairSync, randomBytes } from "node:crypto";
import { join } from "node:path";
import type { TestCa } from "./pki.ts";

// What the control planes of the integration tests and of the node have in common.

/**
 * The files of an API server with these names and of kube-controller-manager, and the token of `admin`, who may do
 * everything.
 */
export function credentials(ca: TestCa, names: string[], admin: string) {
  const adminToken = randomBytes(16).toString("hex");
  const signing = generateKeyPairSync("ec", {
    namedCurve: "P-256",
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "sec1", format: "pem" },
  });
  const serving = ca.serving(names);
  const files = {
    "ca.crt": ca.cert,
    "ca.key": ca.key,
    "apiserver.crt": serving.cert,
    "apiserver.key": serving.key,
    "service-account.key": signing.privateKey,
    "service-account.pub": signing.publicKey,
    "tokens.csv": `${adminToken},${admin},${admin},system:masters\n`,
  };
  return { adminToken, files };
}

/** Without fsync, because a test's data does not need to survive a power cut. */
export function etcdFlags(data: string, client: string, peer: string): string[] {
  return [
    `--data-dir=${data}`,
    "--unsafe-no-fsync",
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--log-level=warn",
  ];
}

interface ApiServer {
  /** The folder with the files of `credentials`. */
  readonly folder: string;
  /** URL of etcd. */
  readonly etcd: string;
  readonly address: string;
  readonly port: number;
  readonly advertised: string;
  readonly serviceRanges: string;
}

export function apiServerFlags({ folder, etcd, address, port, advertised, serviceRanges }: ApiServer): string[] {
  return [
    `--etcd-servers=${etcd}`,
    `--bind-address=${address}`,
    `--secure-port=${port}`,
    `--advertise-address=${advertised}`,
    `--service-cluster-ip-range=${serviceRanges}`,
    `--cert-dir=${folder}`,
    `--tls-cert-file=${join(folder, "apiserver.crt")}`,
    `--tls-private-key-file=${join(folder, "apiserver.key")}`,
    `--client-ca-file=${join(folder, "ca.crt")}`,
    `--token-auth-file=${join(folder, "tokens.csv")}`,
    "--authorization-mode=Node,RBAC",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${join(folder, "service-account.pub")}`,
    `--service-account-signing-key-file=${join(folder, "service-account.key")}`,
  ];
}

/** `folder`: with the files of `credentials`, and this kubeconfig. */
export function controllerManagerFlags(folder: string, kubeconfig: string, certs: string): string[] {
  return [
    `--kubeconfig=${join(folder, kubeconfig)}`,
    "--bind-address=127.0.0.1",
    `--cert-dir=${certs}`,
    "--leader-elect=false",
    `--service-account-private-key-file=${join(folder, "service-account.key")}`,
    `--root-ca-file=${join(folder, "ca.crt")}`,
    `--cluster-signing-cert-file=${join(folder, "ca.crt")}`,
    `--cluster-signing-key-file=${join(folder, "ca.key")}`,
  ];
}
