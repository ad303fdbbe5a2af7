import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { apiServerFlags, controllerManagerFlags, credentials, etcdFlags } from "./control-plane-files.ts";
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
  file(name: string): string;
  ports: { etcd: number; etcdPeer: number; apiServer: number; controllerManager: number };
}

/** Creates the folder, with keys, tokens and configuration for the programs. */
export async function createLayout(): Promise<Layout> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-"));
  const [etcd = 0, etcdPeer = 0, apiServer = 0, controllerManager = 0] = await freePorts(4);
  const ca = createTestCa("switchback-test-ca");
  const names = ["kubernetes.default.svc", "localhost", "127.0.0.1"];
  const { adminToken, files } = credentials(ca, names, "test-admin");
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
  await mkdir(layout.logs);
  await mkdir(layout.file("home"));
  const texts = {
    ...files,
    "egress.yaml": egressConfiguration(layout.egressSocket),
    "admin.kubeconfig": kubeconfigText(url, ca.cert, { token: adminToken }),
  };
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text, { mode: 0o600 });
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

const local = (port: number) => `http://127.0.0.1:${port}`;

export function etcdArgs({ ports, file }: Layout): string[] {
  return etcdFlags(file("etcd-data"), local(ports.etcd), local(ports.etcdPeer));
}

export function apiServerArgs({ folder, ports, file }: Layout): string[] {
  return [
    ...apiServerFlags({
      folder,
      etcd: local(ports.etcd),
      address: "127.0.0.1",
      port: ports.apiServer,
      advertised: ADVERTISED_ADDRESS,
      serviceRanges: SERVICE_RANGES,
    }),
    "--endpoint-reconciler-type=none",
    // Without this flag, an orderly stop would wait for every open watch.
    "--shutdown-watch-termination-grace-period=1s",
    `--egress-selector-config-file=${file("egress.yaml")}`,
  ];
}

export function controllerManagerArgs({ folder, ports, file }: Layout): string[] {
  return [
    ...controllerManagerFlags(folder, "admin.kubeconfig", file("home")),
    `--secure-port=${ports.controllerManager}`,
    // This controller is off, because no kubelet renews the Lease of a node that a test creates.
    "--controllers=*,-node-lifecycle-controller",
    // All controllers use one identity, without client-side rate limit. They then start in 3 s instead of 9.
    "--kube-api-qps=-1",
  ];
}
