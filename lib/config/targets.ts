import { isIP } from "node:net";
import * as z from "zod";
import { MAX_FOUND_PORTS, MAX_FOUND_TARGETS, MAX_TARGET_PORTS, RESERVED_TARGET_NAMES } from "./defaults.ts";
import { host, ip, label, port, seconds } from "./values.ts";

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
    // For editors and the chart; `crossErrors` is the actual validation.
    .meta({ not: { enum: RESERVED_TARGET_NAMES } })
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
  map: z
    .enum(["auto", "always"])
    .default("auto")
    .describe(
      "Which names of discovered targets are mapped: `auto` those whose load balancer kube-proxy short-circuits, `always` also those whose load balancer has `ipMode: Proxy` or a host name. The Service's annotation `switchback.dev/map` takes precedence.",
    ),
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
