import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { direct, front, install, nginx, relayed, rowsOf, services } from "#test/fakes/doctor-changes.ts";
import {
  CONFIG,
  FORBIDDEN,
  FRONT,
  FRONT_IP,
  HEALTHY,
  MAP,
  NGINX,
  NOT_INSTALLED,
  RELAYED,
} from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const KEPT = { unusedSince: "2026-01-01T00:00:00Z" };
const mapped = (...clusterIPs: string[]) =>
  install({
    map: known({
      targets: [
        { name: "other", clusterIPs: ["192.0.2.1"] },
        { name: "ingress-nginx", clusterIPs },
      ],
      map: MAP,
    }),
  });

const ASKED = parseConfig({
  discovery: { detect: true },
  targets: CONFIG.targets.map((each) => ({ ...each, ports: [{ port: 443, protocol: "auto" }] })),
});

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "it has",
    {},
    [
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports; its front Service switchback-system/switchback-ingress-nginx routes to the " +
        "proxy",
    ],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "there is no configuration",
    install({ config: known(undefined) }),
    [
      "broken config-missing | targets | namespace switchback-system has no " +
        "configuration: new pods of Switchback do not start | reapply the chart",
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports; its front Service switchback-system/switchback-ingress-nginx routes to the " +
        "proxy",
    ],
  ],
  [
    "neither the configuration nor the published targets can be read",
    install({ config: FORBIDDEN, targets: FORBIDDEN }),
    [
      "unknown right-missing | targets | missing permission: get that",
      "unknown right-missing | targets | missing permission: get that",
    ],
  ],
  [
    "Services cannot be read",
    { services: FORBIDDEN },
    ["unknown right-missing | target ingress-nginx | missing permission: get that"],
  ],
  [
    "neither Services nor the published targets can be read",
    { services: FORBIDDEN, ...install({ targets: FORBIDDEN }) },
    [
      "unknown right-missing | targets | missing permission: get that",
      "unknown right-missing | target ingress-nginx | missing permission: get that",
    ],
  ],
  [
    "the default target is not in use",
    { ...install({ targets: known([]) }), ...services(FRONT) },
    [
      "ok target-idle | target ingress-nginx | Service ingress-nginx/ingress-nginx-controller does not " +
        "exist: the target is not in use",
    ],
  ],
  [
    "it is not published",
    install({ targets: known([]) }),
    [
      "broken target-not-published | target ingress-nginx | it needs a relay, " +
        "but is not published to the proxies | check that a controller is the leader, and its log",
    ],
  ],
  [
    "its ingress controller has not answered",
    install({ config: known(ASKED), targets: known([]), map: known({ targets: [], map: MAP }) }),
    [
      "ok target-withheld | target ingress-nginx | its names are mapped once its ingress controller is known to " +
        "expect a PROXY header; `switchback status` shows what it answered",
    ],
  ],
  [
    "the published targets cannot be read",
    install({ targets: FORBIDDEN }),
    ["unknown right-missing | targets | missing permission: get that"],
  ],
  [
    "its upstream is a host",
    relayed({ upstream: "192.0.2.1" }),
    [
      "ok target-whole | target ingress-nginx | its upstream 192.0.2.1 exists and has the ports; " +
        "its front Service switchback-system/switchback-ingress-nginx routes to the proxy",
    ],
  ],
  [
    "there is no upstream",
    services(FRONT),
    [
      "broken upstream-missing | target ingress-nginx | there is no Service " +
        "ingress-nginx/ingress-nginx-controller | set `upstream.service` of this target to the Service of the " +
        "ingress controller",
    ],
  ],
  [
    "the upstream lacks a port",
    nginx({ ports: NGINX.ports.slice(0, 1) }),
    [
      "broken upstream-port-missing | target ingress-nginx | Service ingress-nginx/ingress-nginx-controller " +
        "has no port 443; it has 80 | list the ports of the Service under `ports` of this target " +
        "(`upstreamPort` where they differ)",
    ],
  ],
  [
    "the upstream has no port",
    nginx({ ports: [] }),
    [
      "broken upstream-port-missing | target ingress-nginx | Service ingress-nginx/ingress-nginx-controller " +
        "has no port 80, 443; it has no TCP port | list the ports of the Service under `ports` of this target " +
        "(`upstreamPort` where they differ)",
    ],
  ],
  [
    "the upstream has another port",
    nginx({ ports: [8080, 8443].map((port) => ({ name: "", port, targetPort: "", appProtocol: "" })) }),
    [
      "broken upstream-port-missing | target ingress-nginx | Service ingress-nginx/ingress-nginx-controller " +
        "has no port 80, 443; it has 8080, 8443 | list the ports of the Service under `ports` of this target " +
        "(`upstreamPort` where they differ)",
    ],
  ],
  [
    "no endpoint is ready",
    { endpoints: known([{ namespace: NGINX.namespace, name: NGINX.name, ready: 0 }]) },
    [
      "broken upstream-without-endpoints | target ingress-nginx | no endpoint of Service " +
        "ingress-nginx/ingress-nginx-controller is ready | check the ingress controller's pods",
    ],
  ],
  [
    "no endpoint of another Service is ready",
    { endpoints: known([{ namespace: "other", name: NGINX.name, ready: 0 }]) },
    [
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports; its front Service switchback-system/switchback-ingress-nginx routes to the " +
        "proxy",
    ],
  ],
  [
    "endpoints cannot be read",
    { endpoints: FORBIDDEN },
    ["unknown right-missing | target ingress-nginx | missing permission: get that"],
  ],
  [
    "the upstream lacks a port, and endpoints",
    {
      ...nginx({ ports: NGINX.ports.slice(0, 1) }),
      endpoints: known([{ namespace: NGINX.namespace, name: NGINX.name, ready: 0 }]),
    },
    [
      "broken upstream-port-missing | target ingress-nginx | Service ingress-nginx/ingress-nginx-controller " +
        "has no port 443; it has 80 | list the ports of the Service under `ports` of this target " +
        "(`upstreamPort` where they differ)",
      "broken upstream-without-endpoints | target ingress-nginx | no endpoint of Service " +
        "ingress-nginx/ingress-nginx-controller is ready | check the ingress controller's pods",
    ],
  ],
  [
    "there is no front Service",
    services(NGINX),
    [
      "broken front-missing | target ingress-nginx | there is no Service " +
        "switchback-system/switchback-ingress-nginx; pods hold its address | the controller restores it: " +
        "check that one is the leader, and its log",
    ],
  ],
  [
    "the front routes its ports elsewhere",
    front({ ports: FRONT.ports.map((port) => ({ ...port, targetPort: "1" })) }),
    [
      "broken front-port-wrong | target ingress-nginx | Service switchback-system/switchback-ingress-nginx " +
        "does not route port 80 to 21401, 443 to 21982, where the proxy listens | the controller restores it: " +
        "check that one is the leader, and its log",
    ],
  ],
  [
    "the front lacks a port",
    front({ ports: FRONT.ports.slice(1) }),
    [
      "broken front-port-wrong | target ingress-nginx | Service switchback-system/switchback-ingress-nginx " +
        "does not route port 80 to 21401, where the proxy listens | the controller restores it: " +
        "check that one is the leader, and its log",
    ],
  ],
  [
    "the front lacks one label of its selector",
    { ...front({ selector: Object.fromEntries(Object.entries(FRONT.selector).slice(1)) }) },
    [
      "broken front-selector-wrong | target ingress-nginx | Service " +
        "switchback-system/switchback-ingress-nginx does not select the proxy's pods | the controller restores " +
        "it: check that one is the leader, and its log",
    ],
  ],
  [
    "the front selects by more labels",
    front({ selector: { ...FRONT.selector, more: "x" } }),
    [
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports; its front Service switchback-system/switchback-ingress-nginx routes to the " +
        "proxy",
    ],
  ],
  [
    "the selector is not known",
    { ...front({ selector: {} }), ...install({ config: FORBIDDEN }) },
    [
      "unknown right-missing | targets | missing permission: get that",
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports; its front Service switchback-system/switchback-ingress-nginx routes to the " +
        "proxy",
    ],
  ],
  [
    "the front's port and selector are wrong, and the map is not known",
    { ...front({ selector: {}, ports: FRONT.ports.slice(1) }), ...install({ map: FORBIDDEN }) },
    [
      "broken front-port-wrong | target ingress-nginx | Service switchback-system/switchback-ingress-nginx " +
        "does not route port 80 to 21401, where the proxy listens | the controller restores it: " +
        "check that one is the leader, and its log",
      "broken front-selector-wrong | target ingress-nginx | Service " +
        "switchback-system/switchback-ingress-nginx does not select the proxy's pods | the controller restores " +
        "it: check that one is the leader, and its log",
      "unknown right-missing | target ingress-nginx | missing permission: get that",
    ],
  ],
  [
    "the map has no address of it",
    mapped(),
    [
      "warning front-not-published | target ingress-nginx | the published map has no address for this " +
        "target: its names are added once the proxies listen | check the controller's log",
    ],
  ],
  [
    "the map has no target",
    install({ map: known({ targets: [], map: MAP }) }),
    [
      "warning front-not-published | target ingress-nginx | the published map has no address for this " +
        "target: its names are added once the proxies listen | check the controller's log",
    ],
  ],
  [
    "there is no map",
    install({ map: known(undefined) }),
    [
      "warning front-not-published | target ingress-nginx | the published map has no address for this " +
        "target: its names are added once the proxies listen | check the controller's log",
    ],
  ],
  [
    "the map has addresses that are not the front's",
    mapped(FRONT_IP, "198.51.100.77", "198.51.100.78"),
    [
      "broken front-address-changed | target ingress-nginx | names map to 198.51.100.77, 198.51.100.78, " +
        "but Service switchback-system/switchback-ingress-nginx has 198.51.100.9 | restart the pods that hold " +
        "the old address",
    ],
  ],
  [
    "it is kept for older pods",
    relayed(KEPT),
    [
      "ok target-unused | target ingress-nginx | no name uses it any more; " +
        "its front Service switchback-system/switchback-ingress-nginx routes to the proxy",
    ],
  ],
  [
    "it is kept for older pods, and its upstream is gone",
    { ...relayed(KEPT), ...services(FRONT) },
    [
      "ok target-unused | target ingress-nginx | no name uses it any more; " +
        "its front Service switchback-system/switchback-ingress-nginx routes to the proxy",
    ],
  ],
  [
    "it is kept for older pods, and its front is gone",
    { ...relayed(KEPT), ...services(NGINX) },
    [
      "broken front-missing | target ingress-nginx | there is no Service " +
        "switchback-system/switchback-ingress-nginx; pods hold its address | the controller restores it: " +
        "check that one is the leader, and its log",
    ],
  ],
  [
    "it is kept for older pods, and the map has it no more",
    {
      ...relayed(KEPT),
      install: { ...HEALTHY.install, targets: known([{ ...RELAYED, ...KEPT }]), map: known(undefined) },
    },
    [
      "ok target-unused | target ingress-nginx | no name uses it any more; " +
        "its front Service switchback-system/switchback-ingress-nginx routes to the proxy",
    ],
  ],
  [
    "no proxy relays to it",
    direct(),
    [
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports",
    ],
  ],
  [
    "the configuration gives its addresses",
    install({
      config: known({
        ...CONFIG,
        targets: CONFIG.targets.map((target) => ({ ...target, clusterIPs: ["198.51.100.9"] })),
      }),
    }),
    [
      "ok target-whole | target ingress-nginx | its upstream Service ingress-nginx/ingress-nginx-controller " +
        "exists and has the ports",
    ],
  ],
  [
    "it is kept for older pods, at addresses that the configuration gives",
    {
      install: {
        ...HEALTHY.install,
        targets: known([{ ...RELAYED, ...KEPT }]),
        config: known({
          ...CONFIG,
          targets: CONFIG.targets.map((target) => ({ ...target, clusterIPs: ["198.51.100.9"] })),
        }),
      },
    },
    ["ok target-unused | target ingress-nginx | no name uses it any more"],
  ],
];

describe("the targets check says whether a target has what it needs:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("targets", { ...HEALTHY, ...change }), findings));
  }
});
