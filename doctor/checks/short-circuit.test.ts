import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ANSWERED,
  deployments,
  direct,
  install,
  MISREAD,
  nginx,
  probe,
  rowsOf,
  services,
  TIMEOUT,
} from "#test/fakes/doctor-changes.ts";
import { CONFIG, FORBIDDEN, HEALTHY, NGINX, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const ON_REQUEST =
  "install Switchback, and annotate the Service with `switchback.dev/map: always`, " +
  "and with `switchback.dev/proxy-protocol: none` if it expects no header";
const ELSEWHERE = { ...NGINX, namespace: "elsewhere" };
const BYPASSED =
  "192.0.2.80 in its status without ipMode Proxy: kube-proxy makes pods bypass the load balancer " +
  "(selected because the status of Ingress shop/shop has its address)";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "they use the target",
    {},
    [
      "ok short-circuit-cured | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its status " +
        "without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because target " +
        "ingress-nginx uses it); opted-in pods use target ingress-nginx instead",
    ],
  ],
  [
    "they bypass it",
    NOT_INSTALLED,
    [
      "warning short-circuited | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its status " +
        "without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because the status of " +
        "Ingress shop/shop has its address) | install Switchback, which maps its names",
    ],
  ],
  [
    "they bypass it, at each of its addresses but one",
    {
      ...NOT_INSTALLED,
      ...services({
        ...NGINX,
        clusterIPs: ["198.51.100.80", "2001:db8::80"],
        entries: [
          { ip: "192.0.2.1" },
          { ip: "2001:db8::1", ipMode: "VIP" },
          { ip: "192.0.2.2", ipMode: "Proxy" },
          { hostname: "lb.example.com" },
        ],
      }),
    },
    [
      "warning short-circuited | Service ingress-nginx/ingress-nginx-controller | 192.0.2.1, " +
        "2001:db8::1 in its status without ipMode Proxy: kube-proxy makes pods bypass the load balancer " +
        "(selected because it serves port 80) | install Switchback, which maps its names",
    ],
  ],
  [
    "ipMode Proxy",
    nginx({ entries: [{ ip: "192.0.2.1", ipMode: "Proxy" }, { hostname: "lb.example.com" }] }),
    [
      "ok ip-mode-proxy | Service ingress-nginx/ingress-nginx-controller | 192.0.2.1, " +
        "lb.example.com in its status with ipMode Proxy: nothing is short-circuited (selected because target " +
        "ingress-nginx uses it)",
    ],
  ],
  [
    "an IP of another family",
    nginx({ entries: [{ ip: "2001:DB8::1" }, { ip: "192.0.2.1", ipMode: "Proxy" }] }),
    [
      "ok ip-family-not-served | Service ingress-nginx/ingress-nginx-controller | 2001:db8::1, 192.0.2.1 in its " +
        "status, without a ClusterIP of that family: nothing is short-circuited (selected because target " +
        "ingress-nginx uses it)",
    ],
  ],
  [
    "hostnames only",
    nginx({ entries: [{ hostname: "lb.example.com" }, { hostname: "lb2.example.com" }] }),
    [
      "ok hostname-only | Service ingress-nginx/ingress-nginx-controller | its status has lb.example.com, " +
        "lb2.example.com and no IP: nothing is short-circuited (selected because target ingress-nginx uses it)",
    ],
  ],
  [
    "they bypass it, and the probe got an answer there: no harm, so no cure",
    { ...NOT_INSTALLED, ...probe({ balancer: ANSWERED }) },
    [
      `ok short-circuited | Service ingress-nginx/ingress-nginx-controller | ${BYPASSED}; ` +
        "the probe got an answer there",
    ],
  ],
  [
    "they bypass it, and it refuses headers: Switchback maps its names only if the Service asks for it",
    { ...NOT_INSTALLED, ...probe({ none: ANSWERED, v1: MISREAD, v2: MISREAD, balancer: TIMEOUT }) },
    [`warning short-circuited | Service ingress-nginx/ingress-nginx-controller | ${BYPASSED} | ${ON_REQUEST}`],
  ],
  [
    "they bypass its external IPs, which have no ipMode",
    { ...NOT_INSTALLED, ...services({ ...NGINX, type: "ClusterIP", entries: [{ ip: "192.0.2.80", external: true }] }) },
    [
      "warning short-circuited | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its externalIPs: " +
        "kube-proxy makes pods bypass the load balancer (selected because the status of Ingress shop/shop has " +
        "its address) | install Switchback, which maps its names",
    ],
  ],
  [
    "they bypass it, unless its source ranges leave them out",
    { ...NOT_INSTALLED, ...services({ ...NGINX, sourceRanges: ["203.0.113.0/24"] }) },
    [
      `warning short-circuited | Service ingress-nginx/ingress-nginx-controller | ${BYPASSED}; ` +
        "its loadBalancerSourceRanges admit 203.0.113.0/24: " +
        "kube-proxy drops connections from other addresses, with or without a header | " +
        "add the pods' addresses to `loadBalancerSourceRanges` of the Service (203.0.113.0/24) | " +
        ON_REQUEST,
    ],
  ],
  [
    "they bypass it; its source ranges admit everybody",
    { ...NOT_INSTALLED, ...services({ ...NGINX, sourceRanges: ["203.0.113.0/24", "0.0.0.0/0"] }) },
    [
      `warning short-circuited | Service ingress-nginx/ingress-nginx-controller | ${BYPASSED} | ` +
        "install Switchback, which maps its names",
    ],
  ],
  [
    "they bypass it; Switchback, which discovers targets, has none for it",
    { ...services(ELSEWHERE), ...install({ config: known({ ...CONFIG, targets: [] }), targets: known([]) }) },
    [
      `warning short-circuited | Service elsewhere/ingress-nginx-controller | ${BYPASSED} | ` +
        "see why Switchback does not map its names: `switchback status`",
    ],
  ],
  [
    "they bypass it; Switchback, which discovers no targets, has none for it",
    {
      ...services(ELSEWHERE),
      ...install({
        config: known({ ...CONFIG, targets: [], discovery: { ...CONFIG.discovery, enabled: false } }),
        targets: known([]),
      }),
    },
    [
      `warning short-circuited | Service elsewhere/ingress-nginx-controller | ${BYPASSED} | ` +
        "let Switchback map its names: add it to `config.targets`",
    ],
  ],
  [
    "it has no address yet",
    nginx({ entries: [] }),
    [
      "warning address-pending | Service ingress-nginx/ingress-nginx-controller | its status has no address " +
        "(selected because target ingress-nginx uses it) | check the Service's Events: " +
        "its provider has not assigned an address yet, or there is no provider",
    ],
  ],
  [
    "it is no load balancer",
    nginx({ type: "NodePort", entries: [] }),
    [
      "ok not-a-load-balancer | Service ingress-nginx/ingress-nginx-controller | it is of type NodePort: " +
        "kube-proxy has no load balancer address for it (selected because target ingress-nginx uses it)",
    ],
  ],
  [
    "there is none",
    { ...NOT_INSTALLED, services: known([]) },
    [
      "ok no-load-balancer | load balancers | no Service of type LoadBalancer that kube-proxy handles belongs to " +
        "an Ingress, a Gateway or a target, or serves port 80 or 443",
    ],
  ],
  [
    "they use the target, whose proxies are down",
    deployments("switchback-proxy", 0),
    [
      "broken short-circuit-uncured | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its " +
        "status without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because target " +
        "ingress-nginx uses it); opted-in pods use target ingress-nginx instead, " +
        "but no proxy pod is ready | check the proxies: the finding about their Deployment says how",
    ],
  ],
  [
    "they use the target, which needs no proxy",
    { install: { ...HEALTHY.install, ...direct().install, deployments: known([]) } },
    [
      "ok short-circuit-cured | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its status " +
        "without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because target " +
        "ingress-nginx uses it); opted-in pods use target ingress-nginx instead",
    ],
  ],
  [
    "they use the target, and Deployments cannot be read",
    install({ deployments: FORBIDDEN }),
    [
      "unknown right-missing | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its status " +
        "without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because target " +
        "ingress-nginx uses it); opted-in pods use target ingress-nginx instead; missing permission: get that",
    ],
  ],
  [
    "Services cannot be read",
    { services: FORBIDDEN },
    ["unknown right-missing | load balancers | missing permission: get that"],
  ],
  [
    "Ingresses and Gateways cannot be read",
    { ingresses: FORBIDDEN, gateways: FORBIDDEN },
    [
      "unknown right-missing | load balancers | missing permission: get that: some load balancers may be missed",
      "unknown right-missing | load balancers | missing permission: get that: some load balancers may be missed",
      "ok short-circuit-cured | Service ingress-nginx/ingress-nginx-controller | 192.0.2.80 in its status " +
        "without ipMode Proxy: kube-proxy makes pods bypass the load balancer (selected because target " +
        "ingress-nginx uses it); opted-in pods use target ingress-nginx instead",
    ],
  ],
  [
    "nothing but Services can be read, and there is none",
    { ...NOT_INSTALLED, services: known([]), gateways: FORBIDDEN },
    [
      "unknown right-missing | load balancers | missing permission: get that: some load balancers may be missed",
      "ok no-load-balancer | load balancers | no Service of type LoadBalancer that kube-proxy handles belongs to " +
        "an Ingress, a Gateway or a target, or serves port 80 or 443",
    ],
  ],
];

describe("the short-circuit check says what happens to pods that call a load balancer:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("short-circuit", { ...HEALTHY, ...change }), findings));
  }
});
