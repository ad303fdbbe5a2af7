import { isIP } from "node:net";
import { z } from "zod";
import { host, ip, label, port, seconds } from "./values.ts";

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

export const targetSchema = z.strictObject({
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

export const discoverySchema = z.strictObject({
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

type Refine = z.core.$RefinementCtx;

type Targets = ReadonlyArray<z.infer<typeof targetSchema>>;
type Fault = (path: readonly (string | number)[], message: string) => void;

/** What one target cannot tell of itself: names and classes are each one target's, and every target can have an address. */
export function validateTargets(targets: Targets, context: Refine): void {
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
