import { isIP } from "node:net";
import { z } from "zod";
import { isGlob, parseGlob } from "../hosts/names.ts";
import { jsonPathFault } from "./json-path.ts";

/** A TCP port, 1-65535. */
const port = z.int().min(1).max(65535);
/** A duration in seconds. Node's timers hold 2^31 - 1 ms and turn anything above into 1 ms. */
const seconds = z.number().min(0).max(2_000_000);
/** An RFC 1123 label, what Kubernetes takes for most object names that end up in a DNS name. */
const label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a lower-case RFC 1123 label");
/** A zone (`fe80::1%eth0`) means nothing in another machine's hosts file. */
const ip = z
  .string()
  .refine((text) => isIP(text) !== 0 && !text.includes("%"), "must be an IPv4 or IPv6 address, without a zone");
const GLOB_FORMS = "must be a name (`api.example.com`), everything below one (`*.example.com`, at any depth) or `*`";
/** The regular expression is for editors and the chart; what a pattern is says `parseGlob`. */
const glob = z
  .string()
  .regex(/^(\*|(\*|[a-z0-9][-a-z0-9]*)(\.[a-z0-9][-a-z0-9]*)+)$/, { error: GLOB_FORMS, abort: true })
  .refine((text) => isGlob(parseGlob(text)), GLOB_FORMS);
const domain = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\.?$/, "must be a lower-case DNS domain, such as `cluster.local`");
const host = z
  .string()
  .regex(/^[0-9A-Za-z_:.-]+$/, { error: "must be a host name or an IP address", abort: true })
  .refine((text) => isIP(text) !== 0 || !text.includes(":"), "must have no port; ports are set under `ports`");

/** Targets that would take the name of a Service of our own. */
const OWN_SERVICES: readonly string[] = ["controller", "webhook", "proxy", "agent"];

const portSchema = z.strictObject({
  port: port.describe("Port that pods use: the port of the front Service."),
  upstreamPort: port.optional().describe("Port of the upstream; default: the same."),
  protocol: z.enum(["v1", "v2", "none"]).default("v1").describe("PROXY protocol version the upstream expects."),
  listenPort: port.optional().describe("Port the proxy binds; default: derived from target and port, in 15000-24999."),
});

const upstreamSchema = z.union(
  [z.strictObject({ service: z.strictObject({ namespace: label, name: label }) }), z.strictObject({ host })],
  { error: "expected `service: {namespace, name}` or `host: name-or-address`, without a port" },
);

const targetSchema = z.strictObject({
  // 52: `switchback-` and the name must fit the 63 bytes of a Service name.
  name: label
    .max(52)
    .refine((name) => !OWN_SERVICES.includes(name), `must not be ${OWN_SERVICES.join(", ")}: those Services are ours`)
    .meta({ not: { enum: OWN_SERVICES } })
    .describe("Names the front Service, `switchback-<name>`, and stands in metrics and reasons."),
  upstream: upstreamSchema.describe("The ingress controller: a Service, or a host name or address."),
  classes: z.array(z.string().min(1)).default([]).describe("Ingress classes; none: all, if it is the only target."),
  ports: z
    .array(portSchema)
    .min(1)
    .default([
      { port: 80, protocol: "v1" },
      { port: 443, protocol: "v1" },
    ])
    .describe("Ports that work for a mapped name; every other one of the target does not."),
  clusterIPs: z
    .array(ip)
    .max(2)
    .refine((list) => new Set(list.map(isIP)).size === list.length, "must hold at most one IPv4 and one IPv6 address")
    .default([])
    .describe("Addresses to map names to, instead of those that are found (protocol none, or no cluster)."),
});

const discoverySchema = z.strictObject({
  enabled: z
    .boolean()
    .default(true)
    .describe("Find targets: the LoadBalancer Service that has an object's load balancer address is its target."),
  protocol: z
    .enum(["v1", "v2", "none"])
    .default("v1")
    .describe("PROXY protocol version of a found target whose Service has no annotation that tells."),
  keepSeconds: seconds
    .default(86_400)
    .describe("A target that no name leads to any more keeps its address this long, for pods that still hold it."),
  maxTargets: z.int().min(1).max(1000).default(500).describe("Found targets at a time; names of further ones wait."),
});

const claimsSchema = z.strictObject({
  namespaces: z
    .array(z.union([label, z.literal("*")], { error: "must be the name of a namespace, or `*` for all" }))
    .min(1)
    .describe("Namespaces, or `*` for all."),
  domains: z.array(glob).min(1).describe("What their objects may claim."),
});

const policySchema = z.strictObject({
  allowDomains: z.array(glob).default([]).describe("Only these domains may be mapped; none given: all."),
  denyDomains: z.array(glob).default([]).describe("Never mapped; beats allowDomains."),
  namespaces: z.array(label).default([]).describe("Only objects of these namespaces may claim; none given: all."),
  denyNamespaces: z.array(label).default([]).describe("Objects of these namespaces never claim; beats namespaces."),
  maxNamesPerNamespace: z
    .int()
    .min(1)
    .default(1000)
    .describe("Names that one namespace may claim, oldest objects first."),
  claims: z
    .array(claimsSchema)
    .default([])
    .describe(
      "Which namespaces may claim which domains (`namespaces`, `domains`). With any entry, nothing else is mapped.",
    ),
  namespaceAnnotation: z
    .boolean()
    .default(false)
    .describe(
      "A namespace may claim what its annotation switchback.dev/domains lists, and beside `claims` nothing else is mapped. Only where tenants cannot annotate their namespaces.",
    ),
  requireAdmitted: z
    .boolean()
    .default(false)
    .describe(
      "Names wait until a controller has written a load balancer status on their object, or accepted their route.",
    ),
  verifyDns: z
    .enum(["off", "warn", "enforce"])
    .default("warn")
    .describe(
      "Whether the cluster's DNS must resolve a name to its object's load balancer address, which is what makes a hairpin: `warn` flags others in status and metrics, `enforce` does not map them.",
    ),
  dnsServers: z
    .array(z.string().regex(/^([0-9.]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?$/, "must be an IP address, perhaps with a port"))
    .default([])
    .describe("Servers that verifyDns asks (`10.96.0.10`, `[fd00::a]:53`); none given: those of the controller's pod."),
});

const gatewaySchema = z.strictObject({
  enabled: z.boolean().default(true).describe("Read Gateway API's Gateways and routes, if the cluster has them."),
  requireAccepted: z
    .boolean()
    .default(true)
    .describe("Only what a controller says it accepted counts; false for implementations that do not say."),
  listeners: z
    .boolean()
    .default(true)
    .describe("The hostnames of listeners count too, before a route is there: certificates are asked for by them."),
});

/** A JSONPath as RFC 9535 has it, from the top of an object. */
const path = z.string().superRefine((text, context) => {
  const fault = jsonPathFault(text);
  if (fault === undefined) return;
  const message = `is no JSONPath (RFC 9535), such as \`$.spec.hosts[*]\`: ${fault}`;
  context.addIssue({ code: "custom", message });
});

/** Kinds of well-known ingress controllers; sources/custom/presets.ts says how they are read. */
const PRESET_NAMES = [
  "traefik-ingressroute",
  "traefik-ingressroutetcp",
  "istio-gateway",
  "istio-virtualservice",
  "contour-httpproxy",
  "openshift-route",
] as const;
export type PresetName = (typeof PRESET_NAMES)[number];

const customSchema = z.strictObject({
  group: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be an API group, such as `example.com`")
    .describe("API group of the kind."),
  version: label.describe("Version that is read, such as `v1alpha1`."),
  resource: label.describe("The kind's plural, such as `ingressroutes`; the chart lets the controller read it."),
  hostnames: path.describe("JSONPath (RFC 9535) of the hostnames in an object."),
  syntax: z
    .enum(["name", "list", "traefik-rule", "istio-host"])
    .default("name")
    .describe(
      "What stands there: one name, names with commas between them, a rule of Traefik, or Istio's `namespace/name`.",
    ),
  class: path.optional().describe("JSONPath of the class by which a target is found."),
  className: z.string().min(1).optional().describe("The class where an object names none."),
  addresses: path.optional().describe("JSONPath of the load balancer's addresses in the object's status."),
  admitted: path.optional().describe("JSONPath that leads to something once a controller has admitted the object."),
});

const sourcesSchema = z.strictObject({
  ingress: z.strictObject({ enabled: z.boolean().default(true).describe("Read the hosts of Ingresses.") }).prefault({}),
  gateway: gatewaySchema.prefault({}),
  presets: z
    .array(z.enum(PRESET_NAMES))
    .refine((list) => new Set(list).size === list.length, "must name each preset once")
    .default([])
    .describe(`Ready-made kinds to read: ${PRESET_NAMES.join(", ")}.`),
  custom: z.array(customSchema).default([]).describe("Further kinds to read; see below."),
  services: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe("Read LoadBalancer Services with the annotation `external-dns.alpha.kubernetes.io/hostname`."),
    })
    .prefault({}),
  discoverySeconds: z
    .number()
    .min(1)
    .max(3600)
    .default(15)
    .describe("How often is looked whether kinds that a cluster may not have were installed or removed."),
  removedKindSeconds: seconds
    .default(3600)
    .describe("The objects of a kind that was removed from the cluster count as last seen for this long."),
  directory: z.string().optional().describe("Read objects from the YAML files of this directory instead of a cluster."),
});

const mapSchema = z.strictObject({
  vanishSeconds: seconds.default(60).describe("A name whose last claim went away stays mapped this long."),
  guardNames: z.int().min(1).default(10).describe("The removal guard watches maps of at least this many names."),
  guardHoldSeconds: seconds.default(300).describe("How long a loss of more than half of the names is held back."),
  publicationsPerSecond: z.number().positive().default(2).describe("Most publications under churn, on average."),
  bytesPerSecond: z.number().positive().default(200_000).describe("Most bytes published under churn, on average."),
});

const injectSchema = z.strictObject({
  maxNames: z.int().min(1).max(5000).default(500).describe("Names a pod gets at most, first in name order."),
  warnNames: z.int().min(1).default(200).describe("Status warns of pods with more names."),
});

/** Which pods are looked after, and how running ones follow the map. */
const podsSchema = z.strictObject({
  onChange: z
    .enum(["restart", "live", "none"])
    .default("restart")
    .describe("How running pods follow the map unless they, their workload or namespace say otherwise."),
  excludedNamespaces: z
    .array(label)
    .default(["kube-system", "kube-node-lease", "kube-public"])
    .describe("Namespaces that the webhook is never called for; our own is always among them."),
  agentSilenceSeconds: seconds
    .default(600)
    .describe("An agent that was not heard of for this long keeps no pod current: `live` falls back to `restart`."),
});

/** Restarting other people's workloads: every limit of it. */
const restartSchema = z.strictObject({
  namespaces: z
    .array(label)
    .default([])
    .describe("Only workloads of these namespaces are restarted; elsewhere reported."),
  dryRun: z.boolean().default(false).describe("Report what would be restarted, and restart nothing."),
  debounceSeconds: seconds.default(2).describe("A workload's names must have been the same for this long."),
  minIntervalSeconds: seconds.default(30).describe("Least time between two restarts of a workload; doubles with each."),
  maxIntervalSeconds: seconds.default(3600).describe("What that time grows to at most."),
  dailyBudget: z.int().min(0).default(6).describe("Restarts of one workload in any 24 hours."),
  vanishedSeconds: seconds.default(600).describe("Names that only went away wait this long."),
  revertSeconds: seconds
    .default(300)
    .describe("A restart that is taken back within this time was not wanted: the workload is left alone."),
  rolloutSeconds: seconds.default(600).describe("A rollout that takes longer has failed."),
});

const webhookSchema = z.strictObject({
  address: z.string().default("::").describe("Address that both ports bind."),
  port: z.int().min(0).max(65535).default(8443).describe("HTTPS, for the API server."),
  healthPort: z.int().min(0).max(65535).default(8081).describe("Health and metrics."),
  maxBodyBytes: z
    .int()
    .min(1024)
    .default(8 * 1024 * 1024)
    .describe("Larger reviews are refused with 413."),
});

const controllerSchema = z.strictObject({
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

const proxySchema = z.strictObject({
  engine: z
    .enum(["auto", "linux", "portable"])
    .default("portable")
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
  keepaliveSeconds: seconds.default(60).describe("Idle time before TCP keepalive probes."),
  resolveSeconds: seconds.default(30).describe("The upstream's name is looked up again at least this often."),
});

const agentSchema = z.strictObject({
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

const certsSchema = z.strictObject({
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

type Refine = z.core.$RefinementCtx;

type Targets = ReadonlyArray<z.infer<typeof targetSchema>>;
type Fault = (path: readonly (string | number)[], message: string) => void;

/** What one target cannot tell of itself: names and classes are each one target's, and every target can have an address. */
function checkTargets(targets: Targets, context: Refine): void {
  const fault: Fault = (path, message) => context.addIssue({ code: "custom", path: ["targets", ...path], message });
  for (const [index, target] of targets.entries()) {
    if (targets.findIndex(({ name }) => name === target.name) < index)
      fault([index, "name"], "two targets have this name");
    const direct = target.ports.length > 0 && target.ports.every(({ protocol }) => protocol === "none");
    if (direct && !("service" in target.upstream) && target.clusterIPs.length === 0) {
      fault(
        [index, "clusterIPs"],
        "with protocol none on all ports, give the upstream as a Service or the addresses to map to",
      );
    }
    const ports = target.ports.map(({ port: number }) => number);
    if (new Set(ports).size < ports.length) fault([index, "ports"], "a port is listed twice");
  }
  checkClasses(targets, fault);
  checkListenPorts(targets, fault);
}

/** One proxy binds the ports of all targets. */
function checkListenPorts(targets: Targets, fault: Fault): void {
  const taken = new Map<number, string>();
  for (const [index, target] of targets.entries()) {
    for (const [place, { listenPort }] of target.ports.entries()) {
      if (listenPort === undefined) continue;
      const path = `targets[${index}].ports[${place}]`;
      const other = taken.get(listenPort);
      if (other !== undefined) fault([index, "ports", place, "listenPort"], `${other} has this port already`);
      else taken.set(listenPort, path);
    }
  }
}

function checkClasses(targets: Targets, fault: Fault): void {
  const taken = new Map<string, string>();
  for (const [index, target] of targets.entries()) {
    if (targets.length > 1 && target.classes.length === 0) {
      fault([index, "classes"], "with several targets each lists its ingress classes");
    }
    for (const className of target.classes) {
      const other = taken.get(className);
      if (other !== undefined) fault([index, "classes"], `the class ${className} is the target ${other}'s already`);
      taken.set(className, target.name);
    }
  }
}

/** The one schema of the configuration file. Every setting is read from here, once. */
const sectionsSchema = z.strictObject({
  namespace: label.default("switchback-system").describe("Our own namespace."),
  clusterDomain: domain.optional().describe("Found from /etc/resolv.conf when it is not given."),
  targets: z
    .array(targetSchema)
    .default([
      {
        name: "ingress-nginx",
        upstream: { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } },
        classes: [],
        ports: [
          { port: 80, protocol: "v1" },
          { port: 443, protocol: "v1" },
        ],
        clusterIPs: [],
      },
    ])
    .describe("The ingress controllers that names lead to; see below."),
  discovery: discoverySchema.prefault({}),
  policy: policySchema.prefault({}),
  sources: sourcesSchema.prefault({}),
  map: mapSchema.prefault({}),
  inject: injectSchema.prefault({}),
  pods: podsSchema.prefault({}),
  restart: restartSchema.prefault({}),
  webhook: webhookSchema.prefault({}),
  controller: controllerSchema.prefault({}),
  proxy: proxySchema.prefault({}),
  agent: agentSchema.prefault({}),
  certs: certsSchema.prefault({}),
  log: z
    .strictObject({
      level: z
        .enum(["trace", "debug", "info", "warn", "error"])
        .default("info")
        .describe("Least level that is logged."),
    })
    .prefault({}),
});

/** The sections, and what they must agree on. */
export const configSchema = sectionsSchema.superRefine((config, context) => {
  checkTargets(config.targets, context);
  const { leaseSeconds, renewDeadlineSeconds, retrySeconds } = config.controller;
  // The waits between two tries are spread by up to a fifth, as in client-go.
  if (!(retrySeconds * 1.2 < renewDeadlineSeconds && renewDeadlineSeconds < leaseSeconds)) {
    const message = "expected 1.2 x retrySeconds < renewDeadlineSeconds < leaseSeconds";
    context.addIssue({ code: "custom", path: ["controller"], message });
  }
  const { minIntervalSeconds, maxIntervalSeconds } = config.restart;
  if (minIntervalSeconds > maxIntervalSeconds) {
    const message = "expected minIntervalSeconds <= maxIntervalSeconds";
    context.addIssue({ code: "custom", path: ["restart"], message });
  }
  const { mode, certFile, keyFile } = config.certs;
  if (mode === "files" && (certFile === undefined || keyFile === undefined)) {
    context.addIssue({ code: "custom", path: ["certs"], message: "mode files needs certFile and keyFile" });
  }
});

export type Config = z.infer<typeof configSchema>;
export type CustomSource = Config["sources"]["custom"][number];
export type TargetConfig = Config["targets"][number];
export type DiscoveryConfig = Config["discovery"];
export type PolicyConfig = Config["policy"];
export type ProxyConfig = Config["proxy"];
export type WebhookConfig = Config["webhook"];
export type ControllerConfig = Config["controller"];
export type AgentConfig = Config["agent"];
export type CertsConfig = Config["certs"];
export type MapConfig = Config["map"];
export type InjectConfig = Config["inject"];

/** The namespaces whose pods are never sent to the webhook. */
export function excludedNamespaces({ namespace, pods }: Pick<Config, "namespace" | "pods">): ReadonlySet<string> {
  return new Set([...pods.excludedNamespaces, namespace]);
}
