import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { kubeconfigText } from "./kubeconfig.ts";
import { createTestCa, type TestCa } from "./pki.ts";
import { freePorts } from "./ports.ts";

/** Documentation ranges, so that nothing answers if a packet ever leaves the machine. */
const SERVICE_RANGES = "198.51.100.0/24,2001:db8:6::/112";
const ADVERTISED_ADDRESS = "192.0.2.1";

/** The files and ports of one control plane, written before anything starts. */
export interface Layout {
  /** The folder that contains all files. */
  folder: string;
  /** The folder with one log file for each component. */
  logs: string;
  url: string;
  ca: TestCa;
  adminToken: string;
  /** The Unix socket of the egress proxy. */
  egressSocket: string;
  /** A path in `folder`. */
  file(name: LayoutFile): string;
  ports: { etcd: number; etcdPeer: number; apiServer: number; controllerManager: number };
}

type LayoutFile =
  | "ca.crt"
  | "ca.key"
  | "apiserver.crt"
  | "apiserver.key"
  | "service-account.key"
  | "service-account.pub"
  | "tokens.csv"
  | "egress.yaml"
  | "admin.kubeconfig"
  | "etcd-data"
  | "home";

/** Creates the folder, with keys, tokens and configuration for the programs. */
export async function createLayout(): Promise<Layout> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-"));
  const [etcd = 0, etcdPeer = 0, apiServer = 0, controllerManager = 0] = await freePorts(4);
  const ca = createTestCa("switchback-test-ca");
  const adminToken = randomBytes(16).toString("hex");
  const url = `https://127.0.0.1:${apiServer}`;
  const layout: Layout = {
    folder,
    logs: join(folder, "logs"),
    url,
    ca,
    adminToken,
    egressSocket: join(folder, "egress.sock"),
    file: (name) => join(folder, name),
    ports: { etcd, etcdPeer, apiServer, controllerManager },
  };
  const serving = ca.serving(["kubernetes.default.svc", "localhost", "127.0.0.1"]);
  const signing = generateKeyPairSync("ec", {
    namedCurve: "P-256",
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "sec1", format: "pem" },
  });
  const files: Partial<Record<LayoutFile, string>> = {
    "ca.crt": ca.cert,
    "ca.key": ca.key,
    "apiserver.crt": serving.cert,
    "apiserver.key": serving.key,
    "service-account.key": signing.privateKey,
    "service-account.pub": signing.publicKey,
    "tokens.csv": `${adminToken},test-admin,test-admin,system:masters\n`,
    "egress.yaml": egressConfiguration(layout.egressSocket),
    "admin.kubeconfig": kubeconfigText(url, ca.cert, { token: adminToken }),
  };
  await mkdir(layout.logs);
  await mkdir(layout.file("home"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { mode: 0o600 });
  return layout;
}

function egressConfiguration(socket: string): string {
  const connection = { proxyProtocol: "HTTPConnect", transport: { uds: { udsName: socket } } };
  return stringify({
    apiVersion: "apiserver.k8s.io/v1beta1",
    kind: "EgressSelectorConfiguration",
    egressSelections: [{ name: "cluster", connection }],
  });
}

/** Without fsync, because a test's data does not need to survive a power cut. */
export function etcdArgs({ ports, file }: Layout): string[] {
  const client = `http://127.0.0.1:${ports.etcd}`;
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  return [
    `--data-dir=${file("etcd-data")}`,
    "--unsafe-no-fsync",
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--log-level=warn",
  ];
}

export function apiServerArgs({ folder, ports, file }: Layout): string[] {
  return [
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${ports.apiServer}`,
    `--advertise-address=${ADVERTISED_ADDRESS}`,
    "--endpoint-reconciler-type=none",
    `--service-cluster-ip-range=${SERVICE_RANGES}`,
    `--cert-dir=${folder}`,
    `--tls-cert-file=${file("apiserver.crt")}`,
    `--tls-private-key-file=${file("apiserver.key")}`,
    `--client-ca-file=${file("ca.crt")}`,
    `--token-auth-file=${file("tokens.csv")}`,
    "--authorization-mode=Node,RBAC",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${file("service-account.pub")}`,
    `--service-account-signing-key-file=${file("service-account.key")}`,
    // Without this flag, an orderly stop would wait for every open watch.
    "--shutdown-watch-termination-grace-period=1s",
    `--egress-selector-config-file=${file("egress.yaml")}`,
  ];
}

export function controllerManagerArgs({ ports, file }: Layout): string[] {
  return [
    `--kubeconfig=${file("admin.kubeconfig")}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${ports.controllerManager}`,
    `--cert-dir=${file("home")}`,
    "--leader-elect=false",
    // This controller is off, because no kubelet renews the Lease of a node that a test creates.
    "--controllers=*,-node-lifecycle-controller",
    // All controllers use one identity, without client-side rate limit. They then start in 3 s instead of 9.
    "--kube-api-qps=-1",
    `--service-account-private-key-file=${file("service-account.key")}`,
    `--root-ca-file=${file("ca.crt")}`,
    `--cluster-signing-cert-file=${file("ca.crt")}`,
    `--cluster-signing-key-file=${file("ca.key")}`,
  ];
}
