import * as z from "zod";
import { DEFAULT_AGENT_NAMESPACE } from "./defaults.ts";
import { domain, glob, label, port, seconds } from "./values.ts";

// The settings of each component.

/** The maximum of TCP_KEEPIDLE on Linux. With a larger value it silently uses its default of two hours. */
const MAX_KEEPALIVE_SECONDS = 32_767;

/** The text of so many names of 253 characters is still read in full (lib/hostmap/select-hosts.ts). */
const MAX_NODE_HOSTS_ITEMS = 64;

const absolutePath = z
  .string()
  .regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash")
  .refine((path) => !path.split("/").some((part) => part === "." || part === ".."), "must not contain `.` or `..`");

export const webhookSchema = z.strictObject({
  address: z.string().default("::").describe("Address that both ports bind."),
  port: z.int().min(0).max(65535).default(8443).describe("HTTPS, for the API server."),
  healthPort: z.int().min(0).max(65535).default(8081).describe("Health and metrics."),
  maxBodyBytes: z
    .int()
    .min(1024)
    .default(3 * 1024 * 1024)
    .describe(
      "Maximum size of an AdmissionReview; larger ones are refused with 413. An API server stores pods of up to 1.5 MiB.",
    ),
});

export const controllerSchema = z.strictObject({
  address: z.string().default("::").describe("Address that the port binds."),
  port: z.int().min(0).max(65535).default(8080).describe("Health, metrics and /status."),
  leaseSeconds: z
    .number()
    .min(2)
    .max(86_400)
    .default(15)
    .describe("Another replica may take over the Lease after this long without a renewal."),
  renewDeadlineSeconds: z
    .number()
    .min(1)
    .default(10)
    .describe("A leader that cannot renew the Lease for this long gives up."),
  retrySeconds: z.number().min(0.1).default(2).describe("Time between two attempts to acquire or renew the Lease."),
});

export const proxySchema = z.strictObject({
  engine: z
    .enum(["auto", "linux", "portable"])
    .default("auto")
    .describe(
      "Engine of the relay: `linux` uses epoll and splice, `portable` uses node:net, `auto` uses linux where it works.",
    ),
  workers: z
    .int()
    .min(0)
    .max(64)
    .default(0)
    .describe("Threads of the linux engine; 0: half of the cores that the process may use, at least 1 and at most 4."),
  v2Checksum: z.boolean().default(false).describe("Add a CRC-32C checksum to PROXY headers of version 2."),
  v2UniqueId: z.boolean().default(false).describe("Add a unique connection ID (a UUID) to PROXY headers of version 2."),
  selector: z
    .record(z.string(), z.string())
    .default({ "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" })
    .describe("Labels of the proxy pods; the front Services select them."),
  trafficDistribution: z
    .enum(["PreferSameNode", "PreferSameZone", "PreferClose"])
    .optional()
    .describe(
      "`spec.trafficDistribution` of the front Services: `PreferSameNode` (Kubernetes 1.35, default from 1.34) sends a client to a proxy on its own node, `PreferSameZone` and `PreferClose` in its zone. Default: any proxy. What the API server does not know is replaced by `PreferClose`, else left out.",
    ),
  address: z.string().default("::").describe("Address that the relay's listeners bind."),
  healthPort: z.int().min(0).max(65535).default(8082).describe("Health and metrics."),
  maxConnections: z
    .int()
    .min(1)
    .default(10_000)
    .describe("Maximum number of concurrent connections; more are refused."),
  maxConnectionsPerSource: z
    .int()
    .min(1)
    .default(1_000)
    .describe("Maximum number of concurrent connections per source address."),
  connectTimeoutSeconds: seconds.default(5).describe("Timeout for connecting to the upstream."),
  idleTimeoutSeconds: seconds.default(3600).describe("A connection is closed after this long without traffic."),
  halfClosedTimeoutSeconds: seconds
    .default(60)
    .describe("The same once the upstream has closed its side, for clients that ignore it; 0: no such timeout."),
  drainSeconds: seconds
    .default(30)
    .describe("Time that connections have to finish after SIGTERM; then they are reset."),
  keepaliveSeconds: seconds
    .max(MAX_KEEPALIVE_SECONDS)
    .default(60)
    .describe("Idle time before TCP keepalive probes; 0 disables them."),
  resolveSeconds: seconds.default(30).describe("Longest time between two DNS lookups of the upstream."),
});

export const agentSchema = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe("Whether agents run, so that the controller follows them; set by the chart."),
  namespace: label
    .default(DEFAULT_AGENT_NAMESPACE)
    .describe("Namespace of the agents and their Leases. It is separate because the agents need hostPath volumes."),
  node: z.string().min(1).optional().describe("The node whose pods this agent updates; set by the chart."),
  kubeletRoot: absolutePath
    .default("/var/lib/kubelet")
    .describe("The kubelet's root directory (--root-dir); the hosts files are in its `pods` directory."),
  confine: z
    .boolean()
    .default(true)
    .describe(
      "In a pod, give up rights by Landlock, where the kernel has it: the agent can then change hosts files but create, remove or execute nothing on the node.",
    ),
  address: z.string().default("::").describe("Address that the port binds."),
  healthPort: z.int().min(0).max(65535).default(8083).describe("Health and metrics."),
  sweepSeconds: seconds.min(1).default(30).describe("How often every hosts file is checked, even without an event."),
  renewSeconds: seconds.min(1).default(30).describe("How often the node's Lease is renewed."),
});

/** Names in the hosts files of the nodes. */
export const nodeHostsSchema = z.strictObject({
  names: z
    .array(glob)
    .max(MAX_NODE_HOSTS_ITEMS)
    .default([])
    .describe(
      "Mapped names that the agents write into /etc/hosts of their nodes. Pods on the host's network inherit them from there, opted in or not.",
    ),
  remove: z
    .boolean()
    .default(false)
    .describe(
      "With no `names`: mount the file nevertheless, so that agents of nodes that were away when the names were taken back remove them.",
    ),
  hostPath: absolutePath.default("/etc/hosts").describe("The file on the node, which the chart mounts."),
  path: absolutePath.default("/run/switchback-node/hosts").describe("Where the agent finds that file in its pod."),
});

/** The resolvers of pod DNS: CoreDNS, and beside it the sidecar that writes its files. */
export const podDnsSchema = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe("Whether the resolvers of pod DNS run; set by the chart. Without them, every pod gets hostAliases."),
  resolvers: z
    .array(label)
    .length(2)
    .default(["switchback-dns-a", "switchback-dns-b"])
    .describe("The two Services of the resolvers, in the namespace of Switchback; set by the chart."),
  revision: label
    .default("none")
    .describe("Identifies a rollout of the resolvers, which answer for it; set by the chart."),
  waitFor: label
    .optional()
    .describe(
      "Service of the other resolver. A new pod of this one starts once that one, if it answers at all, answers with the same revision; set by the chart.",
    ),
  searches: z
    .array(domain)
    .max(28)
    .optional()
    .describe(
      "Search domains that pods get after those of the cluster; default: those that the webhook's own pod has from its node.",
    ),
  address: z.string().default("::").describe("Address that CoreDNS and its sidecar bind."),
  port: port.default(1053).describe("Look-ups, UDP and TCP."),
  healthPort: z.int().min(0).max(65535).default(8084).describe("Health and metrics of the sidecar."),
  coreDnsHealthPort: port.default(8085).describe("CoreDNS' plugin `health`."),
  coreDnsReadyPort: port.default(8086).describe("CoreDNS' plugin `ready`."),
  coreDnsMetricsPort: port.default(9153).describe("CoreDNS' metrics."),
  upstream: z
    .string()
    .regex(/^[A-Za-z0-9./:[\]-]+$/, "must be a path, or an address with or without a port")
    .default("/etc/resolv.conf")
    .describe(
      "Who answers everything else: a resolv.conf, or a server's address. By default the DNS of the cluster, as for any pod.",
    ),
  directory: z
    .string()
    .regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash")
    .default("/run/switchback-dns")
    .describe("Directory that the sidecar shares with CoreDNS: Corefile, hosts file and zone file."),
  ttlSeconds: seconds
    .min(1)
    .default(5)
    .describe("TTL of mapped names: how long a client that caches may keep an address."),
  reloadMs: z
    .int()
    .min(50)
    .max(60_000)
    .default(100)
    .describe("How often CoreDNS looks whether the map has changed, milliseconds."),
  resolvConf: z
    .string()
    .min(1)
    .default("/etc/resolv.conf")
    .describe(
      "The resolv.conf of a pod with dnsPolicy ClusterFirst, from which the webhook rebuilds what pods would have.",
    ),
});

export const certsSchema = z.strictObject({
  mode: z
    .enum(["self-signed", "cert-manager", "files"])
    .default("self-signed")
    .describe("Who issues the webhook's certificate: the controller, cert-manager, or the user."),
  certFile: z.string().optional().describe("With `files`: path of the serving certificate, PEM, leaf first."),
  keyFile: z.string().optional().describe("With `files`: path of its private key, PEM."),
  caDays: z.number().positive().default(3650).describe("Validity of the CA."),
  leafDays: z.number().positive().default(90).describe("Validity of the serving certificate."),
  overlapSeconds: seconds.default(600).describe("Shortest time between two steps of a rotation."),
});
