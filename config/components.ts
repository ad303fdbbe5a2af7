import { z } from "zod";
import { label, seconds } from "./values.ts";

// The settings of each component.

/** What Linux takes for TCP_KEEPIDLE; with more it would go on with its own two hours, and nobody would hear of it. */
const MAX_KEEPALIVE_SECONDS = 32_767;

export const webhookSchema = z.strictObject({
  address: z.string().default("::").describe("Address that both ports bind."),
  port: z.int().min(0).max(65535).default(8443).describe("HTTPS, for the API server."),
  healthPort: z.int().min(0).max(65535).default(8081).describe("Health and metrics."),
  maxBodyBytes: z
    .int()
    .min(1024)
    .default(8 * 1024 * 1024)
    .describe("Larger reviews are refused with 413."),
});

export const controllerSchema = z.strictObject({
  address: z.string().default("::").describe("Address that the port binds."),
  port: z.int().min(0).max(65535).default(8080).describe("Health, metrics and /status."),
  leaseSeconds: z
    .number()
    .min(2)
    .max(86_400)
    .default(15)
    .describe("Without a renewal for this long another replica may lead."),
  renewDeadlineSeconds: z.number().min(1).default(10).describe("A leader that could not renew for this long stops."),
  retrySeconds: z.number().min(0.1).default(2).describe("Time between two looks at the Lease."),
});

export const proxySchema = z.strictObject({
  engine: z
    .enum(["auto", "linux", "portable"])
    .default("auto")
    .describe("What moves the bytes: `linux` is epoll and splice, `portable` node:net; `auto`: linux where it works."),
  workers: z
    .int()
    .min(0)
    .max(64)
    .default(0)
    .describe("Threads of the linux engine; 0: one for each core that is available, at most 4."),
  v2Checksum: z.boolean().default(false).describe("Headers of version 2 carry a CRC-32C."),
  v2UniqueId: z.boolean().default(false).describe("Headers of version 2 carry an id of the connection, a UUID."),
  selector: z
    .record(z.string(), z.string())
    .default({ "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" })
    .describe("Labels of the proxy pods; the front Services select them."),
  address: z.string().default("::").describe("Address the relay's listeners bind."),
  healthPort: z.int().min(0).max(65535).default(8082).describe("Health and metrics."),
  maxConnections: z.int().min(1).default(10_000).describe("Connections at a time; more are refused."),
  maxConnectionsPerSource: z.int().min(1).default(2_000).describe("The same, of one source address."),
  connectTimeoutSeconds: seconds.default(5).describe("Time to reach the upstream."),
  idleTimeoutSeconds: seconds.default(3600).describe("A connection without a byte for this long is closed."),
  drainSeconds: seconds.default(30).describe("Connections may finish this long after SIGTERM, then are reset."),
  keepaliveSeconds: seconds
    .max(MAX_KEEPALIVE_SECONDS)
    .default(60)
    .describe("Idle time before TCP keepalive probes; 0: none are sent."),
  resolveSeconds: seconds.default(30).describe("The upstream's name is looked up again at least this often."),
});

export const agentSchema = z.strictObject({
  namespace: label
    .default("switchback-agent")
    .describe("Where the agents run and keep their Leases: apart from our own, since they need hostPath volumes."),
  node: z.string().min(1).optional().describe("The node whose pods this agent follows; the chart sets it."),
  kubeletRoot: z
    .string()
    .regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash")
    .refine((path) => !path.split("/").some((part) => part === "." || part === ".."), "must hold no `.` or `..`")
    .default("/var/lib/kubelet")
    .describe("The kubelet's root directory (its --root-dir); the hosts files lie in `pods` below it."),
  address: z.string().default("::").describe("Address that the port binds."),
  healthPort: z.int().min(0).max(65535).default(8083).describe("Health and metrics."),
  sweepSeconds: seconds.min(1).default(30).describe("How often every hosts file is looked at, whatever was noticed."),
  renewSeconds: seconds.min(1).default(30).describe("How often the node's Lease is renewed."),
});

export const certsSchema = z.strictObject({
  mode: z
    .enum(["self-signed", "cert-manager", "files"])
    .default("self-signed")
    .describe("Who issues the webhook's certificate: the controller, the cluster's cert-manager, or you."),
  certFile: z.string().optional().describe("With `files`: path of the serving certificate, PEM, leaf first."),
  keyFile: z.string().optional().describe("With `files`: path of its private key, PEM."),
  caDays: z.number().positive().default(3650).describe("Validity of the CA."),
  leafDays: z.number().positive().default(90).describe("Validity of the serving certificate."),
  overlapSeconds: seconds.default(600).describe("Least time between the steps of a rotation."),
});
