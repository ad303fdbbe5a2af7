import { isIP } from "node:net";
import * as z from "zod";
import { MAX_FOUND_PORTS, MAX_FOUND_TARGETS, MAX_TARGET_PORTS } from "./defaults.ts";
import { host, ip, label, port, seconds } from "./values.ts";

/** Limit of the ports of all configured targets: each is a socket in every thread of every proxy. */
const MAX_CONFIGURED_PORTS = 1_000;

/** Target names that are reserved: the front Service would have the name of another Switchback Service. */
const RESERVED_NAMES: readonly string[] = ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"];

const portSchema = z.strictObject({
  port: port.describe("Port that pods use: the port of the front Service."),
  upstreamPort: port.optional().describe("Port of the upstream; default: the same port."),
  protocol: z.enum(["v1", "v2", "none"]).default("v1").describe("PROXY protocol version that the upstream expects."),
  listenPort: port
    .optional()
    .describe("Port that the proxy binds; default: derived from target and port, in 15000-24999."),
});

const upstreamSchema = z.union(
  [z.strictObject({ service: z.strictObject({ namespace: label, name: label }) }), z.strictObject({ host })],
  { error: "expected `service: {namespace, name}` or `host: name-or-address`, without a port" },
);

export const targetSchema = z.strictObject({
  // 52: `switchback-` and the name must fit the 63 bytes of a Service name.
  name: label
    .max(52)
    .refine(
      (name) => !RESERVED_NAMES.includes(name),
      `must not be ${RESERVED_NAMES.join(", ")}: these Services are Switchback's own`,
    )
    .meta({ not: { enum: RESERVED_NAMES } })
    .describe(
      "Name of the target; used in the name of the front Service, `switchback-<name>`, and in metrics and reasons.",
    ),
  upstream: upstreamSchema.describe("The ingress controller: a Service, or a host name or address."),
  classes: z
    .array(z.string().min(1))
    .default([])
    .describe("Ingress classes; if empty, all, provided that it is the only target."),
  ports: z
    .array(portSchema)
    .min(1)
    .max(MAX_TARGET_PORTS)
    .default([
      { port: 80, protocol: "v1" },
      { port: 443, protocol: "v1" },
    ])
    .describe("Ports that are relayed; a mapped name cannot be reached on any other port."),
  clusterIPs: z
    .array(ip)
    .max(2)
    .refine(
      (list) => new Set(list.map(isIP)).size === list.length,
      "must contain at most one IPv4 and one IPv6 address",
    )
    .default([])
    .describe("Addresses to map names to, instead of the discovered ones (protocol none, or no cluster)."),
});

export const discoverySchema = z.strictObject({
  enabled: z
    .boolean()
    .default(true)
    .describe(
      "Discover targets: the target of an object is the LoadBalancer Service that has its load balancer address.",
    ),
  protocol: z
    .enum(["v1", "v2", "none"])
    .default("v1")
    .describe("PROXY protocol version of a discovered target whose Service has no annotation for it."),
  keepSeconds: seconds
    .default(86_400)
    .describe("How long an unused target keeps its address, for pods that still have it in their hosts files."),
  maxTargets: z
    .int()
    .min(1)
    .max(MAX_FOUND_TARGETS)
    .default(500)
    .describe(
      "Maximum number of discovered targets; one namespace gets at most half. Names of more targets are not mapped.",
    ),
  maxPorts: z
    .int()
    .min(1)
    .max(MAX_FOUND_PORTS)
    .default(2000)
    .describe("Maximum number of ports of all discovered targets; one namespace gets at most half."),
});

type Refine = z.core.$RefinementCtx;

type Targets = ReadonlyArray<z.infer<typeof targetSchema>>;
type ReportError = (path: readonly (string | number)[], message: string) => void;

/** Checks across targets: names and classes are unique, and every target can have an address. */
export function validateTargets(targets: Targets, context: Refine): void {
  const reportError: ReportError = (path, message) =>
    context.addIssue({ code: "custom", path: ["targets", ...path], message });
  for (const [index, target] of targets.entries()) {
    if (targets.findIndex(({ name }) => name === target.name) < index)
      reportError([index, "name"], "two targets have this name");
    const direct = target.ports.length > 0 && target.ports.every(({ protocol }) => protocol === "none");
    if (direct && !("service" in target.upstream) && target.clusterIPs.length === 0) {
      reportError(
        [index, "clusterIPs"],
        "with protocol none on all ports, set the upstream to a Service, or set the addresses to map to",
      );
    }
    const ports = target.ports.map(({ port: number }) => number);
    if (new Set(ports).size < ports.length) reportError([index, "ports"], "a port is listed twice");
  }
  const ports = targets.reduce((sum, target) => sum + target.ports.length, 0);
  if (ports > MAX_CONFIGURED_PORTS)
    reportError([], `${ports} ports in all; at most ${MAX_CONFIGURED_PORTS} are possible`);
  checkClasses(targets, reportError);
  checkListenPorts(targets, reportError);
}

/** Listen ports must be unique: each proxy binds the ports of all targets. */
function checkListenPorts(targets: Targets, reportError: ReportError): void {
  const used = new Map<number, string>();
  for (const [index, target] of targets.entries()) {
    for (const [position, { listenPort }] of target.ports.entries()) {
      if (listenPort === undefined) continue;
      const path = `targets[${index}].ports[${position}]`;
      const other = used.get(listenPort);
      if (other !== undefined) reportError([index, "ports", position, "listenPort"], `${other} already has this port`);
      else used.set(listenPort, path);
    }
  }
}

function checkClasses(targets: Targets, reportError: ReportError): void {
  const used = new Map<string, string>();
  for (const [index, target] of targets.entries()) {
    if (targets.length > 1 && target.classes.length === 0) {
      reportError([index, "classes"], "with several targets, each must list its ingress classes");
    }
    for (const className of target.classes) {
      const other = used.get(className);
      if (other !== undefined)
        reportError([index, "classes"], `the class ${className} already belongs to the target ${other}`);
      used.set(className, target.name);
    }
  }
}
