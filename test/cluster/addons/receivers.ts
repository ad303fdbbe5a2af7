import type { Cluster, KubeObject } from "../cluster.ts";
import { IMAGES, receiverImages } from "../images.ts";
import { ADDRESSES } from "../node/layout.ts";
import { importImages } from "../node/up.ts";
import { createTestCa } from "../pki.ts";
import { progressLines } from "../progress.ts";
import { caddyJson, haproxyText, nginxText, type ReceiverPorts } from "../receivers.ts";
import { type PublishedService, publishAddress } from "./load-balancers.ts";
import { deployment, namespace } from "./objects.ts";

/**
 * Ranges for the lists of trusted addresses. The first includes the proxies and all other pods; the second does not
 * include the proxies.
 */
const PODS = ADDRESSES.podRange;
const OTHERS = ADDRESSES.nodeRange;

/** Settings of each receiver for PROXY headers, by a title in the receiver's own words. */
const MODES = {
  nginx: {
    "list with the proxies": ["proxy_protocol", PODS],
    "list without the proxies": ["proxy_protocol", OTHERS],
  },
  haproxy: {
    "accept-proxy": ["accept-proxy", ""],
    "expect-proxy, list with the proxies": ["", PODS],
    "expect-proxy, list without the proxies": ["", OTHERS],
  },
  caddy: {
    "fallback_policy require": { fallback_policy: "REQUIRE" },
    "list with the proxies": { allow: [PODS] },
    "list without the proxies, fallback_policy skip": { allow: [OTHERS], fallback_policy: "SKIP" },
  },
} as const;
type Software = keyof typeof MODES;

const NAMESPACE = "receivers";
const FOLDER = "/etc/receiver";
const CERTIFICATE = createTestCa("receivers").serving(["*.example.com"]);
const portsOf = (n: number) => ({ http: 8000 + n, tls: 9000 + n });

/** Software that accepts PROXY headers, in one of its modes, with the LoadBalancer Service that leads to its ports. */
export interface Receiver extends PublishedService {
  readonly software: Software;
  readonly mode: string;
  readonly ports: ReceiverPorts;
}

/**
 * The receivers of all software. Each answers every request with the requested host and the client address that it
 * sees.
 */
export const RECEIVERS: readonly Receiver[] = Object.entries(MODES)
  .flatMap(([software, modes]) => Object.keys(modes).map((mode, n) => ({ software: software as Software, mode, n })))
  .map(({ software, mode, n }, index) => {
    const [service, address] = [`${software}-${n}`, `192.0.2.${90 + index}`];
    return { namespace: NAMESPACE, service, address, addresses: [address], software, mode, ports: portsOf(n) };
  });

/** Installs one pod for each software, and the Services. */
export async function install(cluster: Cluster): Promise<void> {
  await importImages(await receiverImages(), progressLines());
  await cluster.apply(namespace(NAMESPACE), ...OBJECTS);
  for (const receiver of RECEIVERS) await publishAddress(cluster, receiver);
  await cluster.rolledOut(NAMESPACE, ...Object.keys(MODES).map((software) => `deployment/${software}`));
}

export async function uninstall(cluster: Cluster): Promise<void> {
  await cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=120s");
}

const PLACE = {
  address: "",
  temporary: "/tmp",
  key: `${FOLDER}/tls.key`,
  cert: `${FOLDER}/tls.crt`,
  pem: `${FOLDER}/tls.pem`,
};

function withPorts<Setting>(modes: Readonly<Record<string, Setting>>) {
  return Object.values(modes).map((setting, n) => [setting, portsOf(n)] as const);
}

const FILE = `${FOLDER}/configuration`;
const PROGRAMS: Record<Software, { image: string; text: string; command: string[] }> = {
  nginx: {
    image: IMAGES.nginx,
    text: nginxText(withPorts(MODES.nginx), PLACE, '200 "nginx host=$host for=$remote_addr\\n"'),
    command: ["/usr/sbin/nginx", "-e", "stderr", "-c", FILE],
  },
  haproxy: {
    image: IMAGES.haproxy,
    text: haproxyText(
      withPorts(MODES.haproxy),
      PLACE,
      'status 200 content-type text/plain lf-string "haproxy host=%[req.hdr(host)] for=%[src]\\n"',
    ),
    command: ["/usr/sbin/haproxy", "-db", "-f", FILE],
  },
  caddy: {
    image: IMAGES.caddy,
    text: caddyJson(withPorts(MODES.caddy), PLACE, {
      status_code: 200,
      body: "caddy host={http.request.host} for={http.request.remote.host}\n",
    }),
    command: ["/caddy", FILE],
  },
};

const OBJECTS: KubeObject[] = [
  ...Object.entries(PROGRAMS).flatMap(([name, { image, text, command }]) => {
    const { key, cert } = CERTIFICATE;
    const data = { configuration: text, "tls.key": key, "tls.crt": cert, "tls.pem": cert + key };
    return [
      { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: NAMESPACE, name }, data },
      deployment({ namespace: NAMESPACE, name, image, command, config: { name, path: FOLDER } }),
    ];
  }),
  ...RECEIVERS.map(({ service: name, software, ports }) => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: NAMESPACE, name },
    spec: {
      type: "LoadBalancer",
      selector: { app: software },
      ports: [
        { name: "http", port: 80, targetPort: ports.http },
        { name: "https", port: 443, targetPort: ports.tls },
      ],
    },
  })),
];
