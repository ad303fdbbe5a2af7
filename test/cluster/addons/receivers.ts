import type { Cluster, KubeObject } from "../cluster.ts";
import { IMAGES, receiverImages } from "../images.ts";
import { ADDRESSES } from "../node/layout.ts";
import { importImages } from "../node/up.ts";
import { createTestCa } from "../pki.ts";
import { progressLines } from "../progress.ts";
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
    "list with the proxies": PODS,
    "list without the proxies": OTHERS,
  },
  haproxy: {
    "accept-proxy": ["accept-proxy", ""],
    "expect-proxy, list with the proxies": ["", `tcp-request connection expect-proxy layer4 if { src ${PODS} }`],
    "expect-proxy, list without the proxies": ["", `tcp-request connection expect-proxy layer4 if { src ${OTHERS} }`],
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
const portsOf = (n: number) => ({ http: 8000 + n, https: 9000 + n });

/** Software that accepts PROXY headers, in one of its modes, with the LoadBalancer Service that leads to its ports. */
export interface Receiver extends PublishedService {
  readonly software: Software;
  readonly mode: string;
  readonly ports: { readonly http: number; readonly https: number };
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

/** nginx demands a header. Its list says which senders' headers it believes. */
function nginxConfiguration(): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (one) => `${one}_temp_path /tmp/${one};\n`,
  );
  const servers = Object.values(MODES.nginx).map((list, n) => {
    const { http, https } = portsOf(n);
    return `server {
  listen ${http} proxy_protocol;
  listen ${https} ssl proxy_protocol;
  real_ip_header proxy_protocol;
  set_real_ip_from ${list};
  return 200 "nginx host=$host for=$remote_addr\\n";
}
`;
  });
  return `daemon off;
pid /tmp/pid;
error_log stderr info;
events {}
http {
access_log off;
ssl_certificate ${FOLDER}/tls.crt;
ssl_certificate_key ${FOLDER}/tls.key;
${temporary.join("")}${servers.join("")}}
`;
}

function haproxyConfiguration(): string {
  const frontends = Object.values(MODES.haproxy).map(([accept, expect], n) => {
    const { http, https } = portsOf(n);
    return `frontend mode${n}
  bind :${http} ${accept}
  bind :${https} ssl crt ${FOLDER}/tls.pem ${accept}
  ${expect}
  http-request return status 200 content-type text/plain lf-string "haproxy host=%[req.hdr(host)] for=%[src]\\n"
`;
  });
  return `defaults
  mode http
  log stdout format raw local0
  option httplog
  timeout client 30s
${frontends.join("")}`;
}

function caddyConfiguration(): string {
  const body = "caddy host={http.request.host} for={http.request.remote.host}\n";
  const servers = Object.values(MODES.caddy).flatMap((policy, n) =>
    Object.entries(portsOf(n)).map(([scheme, port]) => [
      `${scheme}${n}`,
      {
        listen: [`:${port}`],
        automatic_https: { disable: true },
        protocols: ["h1"],
        routes: [{ handle: [{ handler: "static_response", status_code: 200, body }] }],
        listener_wrappers: [{ wrapper: "proxy_protocol", ...policy }, { wrapper: "tls" }],
        ...(scheme === "https" && { tls_connection_policies: [{}] }),
      },
    ]),
  );
  const load_files = [{ certificate: `${FOLDER}/tls.crt`, key: `${FOLDER}/tls.key` }];
  const apps = { http: { servers: Object.fromEntries(servers) }, tls: { certificates: { load_files } } };
  return JSON.stringify({ admin: { disabled: true, config: { persist: false } }, apps });
}

const FILE = `${FOLDER}/configuration`;
const PROGRAMS: Record<Software, { image: string; text: string; command: string[] }> = {
  nginx: {
    image: IMAGES.nginx,
    text: nginxConfiguration(),
    command: ["/usr/sbin/nginx", "-e", "stderr", "-c", FILE],
  },
  haproxy: { image: IMAGES.haproxy, text: haproxyConfiguration(), command: ["/usr/sbin/haproxy", "-db", "-f", FILE] },
  caddy: { image: IMAGES.caddy, text: caddyConfiguration(), command: ["/caddy", FILE] },
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
        { name: "https", port: 443, targetPort: ports.https },
      ],
    },
  })),
];
