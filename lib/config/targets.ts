import { isIP } from "node:net";
import * as v from "valibot";
import { integer, strictObject, text } from "#lib/errors/schemas.ts";
import { MAX_FOUND_TARGETS, MAX_TARGET_PORTS, RESERVED_TARGET_NAMES } from "./defaults.ts";
import { described, host, ip, label, optionalSetting, port, seconds, setting } from "./values.ts";

const portSchema = strictObject({
  port: described(port, "Port that pods use: the port of the front Service."),
  upstreamPort: optionalSetting(
    port,
    "Port of the upstream; default: the same port. Set it if the Service has another one.",
  ),
  protocol: setting(
    v.picklist(["auto", "v1", "v2", "none"]),
    "auto",
    "PROXY protocol version that the upstream expects. `auto`: with `discovery.detect`, what the upstream answers " +
      "when a proxy asks it, and the target's names wait for that; without it, v1.",
  ),
  listenPort: optionalSetting(
    port,
    "Port that the proxy binds; default: derived from target and port, in 15000-24999. Set it for your own network " +
      "policies.",
  ),
});

const upstreamSchema = v.union(
  [strictObject({ service: strictObject({ namespace: label, name: label }) }), strictObject({ host })],
  "expected `service: {namespace, name}` or `host: name-or-address`, without a port",
);

export const targetSchema = strictObject({
  // 52, because `switchback-` and the name must fit into the 63 bytes of a Service name.
  name: described(
    v.pipe(label, v.maxLength(52), v.metadata({ not: { enum: RESERVED_TARGET_NAMES } })),
    "Name of the target; used in the name of the front Service, `switchback-<name>`, and in metrics and reasons.",
  ),
  upstream: described(upstreamSchema, "The ingress controller: a Service, or a host name or address."),
  classes: setting(
    v.array(text),
    [],
    "Ingress classes; if empty, all, provided that it is the only target. Set it with several targets.",
  ),
  ports: setting(
    v.pipe(v.array(portSchema), v.minLength(1), v.maxLength(MAX_TARGET_PORTS)),
    [
      { port: 80, protocol: "auto" },
      { port: 443, protocol: "auto" },
    ],
    "Ports that are relayed; a mapped name cannot be reached on any other port. Add all that clients use.",
  ),
  clusterIPs: setting(
    v.pipe(
      v.array(ip),
      v.maxLength(2),
      v.check(
        (list) => new Set(list.map(isIP)).size === list.length,
        "must contain at most one IPv4 and one IPv6 address",
      ),
    ),
    [],
    "Addresses to map names to, instead of the discovered ones. Needed for protocol none without discovery.",
  ),
});

export const discoverySchema = strictObject({
  enabled: setting(
    v.boolean(),
    true,
    "Discover targets: the target of an object is the LoadBalancer Service that has its load balancer address. " +
      "Disable " +
      "it to use only `targets`.",
  ),
  protocol: setting(
    v.picklist(["auto", "v1", "v2", "none"]),
    "auto",
    "PROXY protocol version of a discovered target whose Service has no annotation for it. `auto`: the proxies ask " +
      "the ingress controller (`detect`); without that, v1. Set it if you disable `detect`.",
  ),
  detect: setting(
    v.boolean(),
    true,
    "Let the proxies ask the ingress controllers of targets whose protocol is `auto` whether they expect a PROXY " +
      "header. The answer comes before the annotation of a cloud provider; the Service's annotation " +
      "`switchback.dev/proxy-protocol` comes before both. Disable it if no connection may be made without a client.",
  ),
  map: setting(
    v.picklist(["auto", "always"]),
    "auto",
    "Which names of discovered targets are mapped: `auto` those whose load balancer kube-proxy short-circuits, " +
      "`always` also those whose load balancer has `ipMode: Proxy` or a host name. The Service's annotation " +
      "`switchback.dev/map` takes precedence.",
  ),
  keepSeconds: setting(
    seconds,
    86_400,
    "How long an unused target keeps its address, for pods that still have it in their hosts files. Raise it if your " +
      "pods follow new names later than after a day.",
  ),
  maxTargets: setting(
    integer(1, MAX_FOUND_TARGETS),
    500,
    "Maximum number of discovered targets; one namespace gets at most half. Names of more targets are not " +
      "mapped. Change it if you have more, or if tenants may use fewer.",
  ),
});
