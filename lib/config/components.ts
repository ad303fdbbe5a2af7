import * as v from "valibot";
import { integer, number, numberFrom, record, strictObject, text } from "#lib/errors/schemas.ts";
import { DEFAULT_AGENT_NAMESPACE } from "./defaults.ts";
import { bindPort, glob, label, optionalSetting, positive, seconds, secondsFrom, setting } from "./values.ts";

// The settings of each component.

/** The maximum of TCP_KEEPIDLE on Linux. With a larger value it silently uses its default of two hours. */
const MAX_KEEPALIVE_SECONDS = 32_767;

/** With this many names of 253 characters the whole text is still read (lib/hostmap/select-hosts.ts). */
const MAX_NODE_HOSTS_ITEMS = 64;

const absolutePath = v.pipe(
  v.string(),
  v.regex(/^(\/[A-Za-z0-9._-]+)+$/, "must be an absolute path without a trailing slash"),
  v.check((path) => !path.split("/").some((part) => part === "." || part === ".."), "must not contain `.` or `..`"),
);

export const webhookSchema = strictObject({
  address: setting(v.string(), "::", "Address that both ports bind."),
  port: setting(bindPort, 8443, "HTTPS, for the API server."),
  healthPort: setting(bindPort, 8081, "Health and metrics."),
  maxBodyBytes: setting(
    integer(1024),
    3 * 1024 * 1024,
    "Maximum size of an AdmissionReview; larger ones are refused with 413. An API server stores pods of up to 1.5 MiB.",
  ),
});

export const controllerSchema = strictObject({
  address: setting(v.string(), "::", "Address that the port binds."),
  port: setting(bindPort, 8080, "Health, metrics and /status."),
  leaseSeconds: setting(
    number(2, 86_400),
    15,
    "Another replica may take over the Lease after this long without a renewal.",
  ),
  renewDeadlineSeconds: setting(numberFrom(1), 10, "A leader that cannot renew the Lease for this long gives up."),
  retrySeconds: setting(numberFrom(0.1), 2, "Time between two attempts to acquire or renew the Lease."),
});

export const proxySchema = strictObject({
  engine: setting(
    v.picklist(["auto", "linux", "portable"]),
    "auto",
    "Engine of the relay: `linux` uses epoll and splice, `portable` uses node:net, `auto` uses linux where it works.",
  ),
  workers: setting(
    integer(0, 64),
    0,
    "Threads of the linux engine; 0: half of the cores that the process may use, at least 1 and at most 4.",
  ),
  v2Checksum: setting(v.boolean(), false, "Add a CRC-32C checksum to PROXY headers of version 2."),
  v2UniqueId: setting(v.boolean(), false, "Add a unique connection ID (a UUID) to PROXY headers of version 2."),
  selector: setting(
    record(v.string(), v.string()),
    { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" },
    "Labels of the proxy pods; the front Services select them.",
  ),
  trafficDistribution: optionalSetting(
    v.picklist(["PreferSameNode", "PreferSameZone", "PreferClose"]),
    "`spec.trafficDistribution` of the front Services: `PreferSameNode` (Kubernetes 1.35, default from 1.34) sends a " +
      "client to a proxy on its own node, `PreferSameZone` and `PreferClose` in its zone. Default: any proxy. What " +
      "the API server does not know is replaced by `PreferClose`, else left out.",
  ),
  address: setting(v.string(), "::", "Address that the relay's listeners bind."),
  healthPort: setting(bindPort, 8082, "Health and metrics."),
  maxConnections: setting(integer(1), 10_000, "Maximum number of concurrent connections; more are refused."),
  maxConnectionsPerSource: setting(integer(1), 1_000, "Maximum number of concurrent connections per source address."),
  connectTimeoutSeconds: setting(seconds, 5, "Timeout for connecting to the upstream."),
  idleTimeoutSeconds: setting(seconds, 3600, "A connection is closed after this long without traffic."),
  halfClosedTimeoutSeconds: setting(
    seconds,
    60,
    "The same once the upstream has closed its side, for clients that ignore it; 0: no such timeout.",
  ),
  drainSeconds: setting(seconds, 30, "Time that connections have to finish after SIGTERM; then they are reset."),
  keepaliveSeconds: setting(
    secondsFrom(0, MAX_KEEPALIVE_SECONDS),
    60,
    "Idle time before TCP keepalive probes; 0 disables them.",
  ),
  resolveSeconds: setting(seconds, 30, "Longest time between two DNS lookups of the upstream."),
});

export const agentSchema = strictObject({
  enabled: setting(v.boolean(), false, "Whether agents run, so that the controller follows them; set by the chart."),
  namespace: setting(
    label,
    DEFAULT_AGENT_NAMESPACE,
    "Namespace of the agents and their Leases. It is separate because the agents need hostPath volumes.",
  ),
  node: optionalSetting(text, "The node whose pods this agent updates; set by the chart."),
  kubeletRoot: setting(
    absolutePath,
    "/var/lib/kubelet",
    "The kubelet's root directory (--root-dir); the hosts files are in its `pods` directory.",
  ),
  confine: setting(
    v.boolean(),
    true,
    "In a pod, give up rights by Landlock, where the kernel has it: the agent can then change hosts files but " +
      "create, remove or execute nothing on the node.",
  ),
  address: setting(v.string(), "::", "Address that the port binds."),
  healthPort: setting(bindPort, 8083, "Health and metrics."),
  sweepSeconds: setting(secondsFrom(1), 30, "How often every hosts file is checked, even without an event."),
  renewSeconds: setting(secondsFrom(1), 30, "How often the node's Lease is renewed."),
});

/** Names in the hosts files of the nodes. */
export const nodeHostsSchema = strictObject({
  names: setting(
    v.pipe(v.array(glob), v.maxLength(MAX_NODE_HOSTS_ITEMS)),
    [],
    "Mapped names that the agents write into /etc/hosts of their nodes. Pods on the host's network inherit them from " +
      "there, opted in or not.",
  ),
  remove: setting(
    v.boolean(),
    false,
    "With no `names`: mount the file nevertheless, so that agents of nodes that were away when the names were taken " +
      "back remove them.",
  ),
  hostPath: setting(absolutePath, "/etc/hosts", "The file on the node, which the chart mounts."),
  path: setting(absolutePath, "/run/switchback-node/hosts", "Where the agent finds that file in its pod."),
});

export const certsSchema = strictObject({
  mode: setting(
    v.picklist(["self-signed", "cert-manager", "files"]),
    "self-signed",
    "Who issues the webhook's certificate: the controller, cert-manager, or the user.",
  ),
  certFile: optionalSetting(v.string(), "With `files`: path of the serving certificate, PEM, leaf first."),
  keyFile: optionalSetting(v.string(), "With `files`: path of its private key, PEM."),
  caDays: setting(positive, 3650, "Validity of the CA."),
  leafDays: setting(positive, 90, "Validity of the serving certificate."),
  overlapSeconds: setting(seconds, 600, "Shortest time between two steps of a rotation."),
});
