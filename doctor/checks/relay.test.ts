import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, nginx, probe, REFUSED, relayed, rowsOf, TIMEOUT } from "#test/fakes/doctor-changes.ts";
import type { Ways } from "#test/fakes/doctor-facts.ts";
import { CLOSED, FORBIDDEN, HEALTHY, NGINX, NOT_INSTALLED, RELAYED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const SILENT = { kind: "silent", detail: "no answer within 10 s" } as const;
const UNREACHABLE = { kind: "unreachable", detail: "EHOSTUNREACH" } as const;
const HTTP = { ...NGINX, ports: NGINX.ports.slice(0, 1) };
const asked = (ways: Ways) => probe({ service: HTTP, ...ways });
const readyz = (...lines: string[]) => ({ probe: undefined, ...install({ proxyReadyz: known(lines.join("\n")) }) });
const SINCE = "since 2026-01-01T00:00:00.000Z, h: 198.51.100.80";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "each port",
    {},
    [
      "ok relay-answers | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: HTTP 404",
      "ok relay-answers | front Service switchback-system/switchback-ingress-nginx port 443 | from the " +
        "proxies' addresses, through the proxy: HTTP 404",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  ["Switchback is not installed", NOT_INSTALLED, []],
  [
    "no probe",
    { probe: undefined },
    ["ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail"],
  ],
  [
    "a probe that failed",
    { probe: FORBIDDEN },
    ["ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail"],
  ],
  [
    "a load balancer without a target",
    { ...asked({}), ...nginx({ namespace: "elsewhere" }) },
    ["ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail"],
  ],
  [
    "a target whose upstream has another port",
    { ...asked({}), ...relayed({ ports: [{ port: 8000, listenPort: 15_000, upstreamPort: 80, protocol: "v2" }] }) },
    [
      "ok relay-answers | front Service switchback-system/switchback-ingress-nginx port 8000 | from the " +
        "proxies' addresses, through the proxy: HTTP 404",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "nobody listens",
    asked({ front: REFUSED }),
    [
      "broken relay-unreachable | front Service switchback-system/switchback-ingress-nginx port 80 | from " +
        "the proxies' addresses, through the proxy: ECONNREFUSED | check the front Service's pods, " +
        "ports and selector, and NetworkPolicies that select the proxy",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "no connection",
    asked({ front: TIMEOUT }),
    [
      "broken relay-unreachable | front Service switchback-system/switchback-ingress-nginx port 80 | from " +
        "the proxies' addresses, through the proxy: no connection | check the front Service's pods, " +
        "ports and selector, and NetworkPolicies that select the proxy",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "no route",
    asked({ front: UNREACHABLE }),
    [
      "broken relay-unreachable | front Service switchback-system/switchback-ingress-nginx port 80 | from " +
        "the proxies' addresses, through the proxy: EHOSTUNREACH | check the front Service's pods, " +
        "ports and selector, and NetworkPolicies that select the proxy",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "slow, as without the proxy",
    asked({ v1: SILENT, v2: SILENT, front: SILENT }),
    [
      "unknown relay-slow | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: no answer within 10 s | run again; " +
        "check the ingress controller's log",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "slow, and without the proxy it is not",
    asked({ front: SILENT }),
    [
      "broken relay-refused | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: no answer within 10 s; " +
        "the same header from the probe pod's own address is answered | configure the ingress controller to " +
        "trust PROXY headers from the proxy pods' addresses (ingress-nginx `proxy-real-ip-cidr`, " +
        "Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | check the logs of the proxy (`upstream " +
        "cannot be reached`) and of the ingress controller",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "closed, and without the proxy it is not",
    asked({ front: CLOSED }),
    [
      "broken relay-refused | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: the connection was reset; " +
        "the same header from the probe pod's own address is answered | configure the ingress controller to " +
        "trust PROXY headers from the proxy pods' addresses (ingress-nginx `proxy-real-ip-cidr`, " +
        "Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | check the logs of the proxy (`upstream " +
        "cannot be reached`) and of the ingress controller",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "closed, as without the proxy",
    asked({ v1: CLOSED, front: CLOSED }),
    [
      "broken relay-refused | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: the connection was reset | configure the ingress controller to " +
        "trust PROXY headers from the proxy pods' addresses (ingress-nginx `proxy-real-ip-cidr`, " +
        "Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | check the logs of the proxy (`upstream " +
        "cannot be reached`) and of the ingress controller",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "closed, where no header is configured",
    {
      ...asked({ front: CLOSED }),
      ...relayed({ ports: RELAYED.ports.map((entry) => ({ ...entry, protocol: "none" })) }),
    },
    [
      "broken relay-refused | front Service switchback-system/switchback-ingress-nginx port 80 | from the " +
        "proxies' addresses, through the proxy: the connection was reset | configure the ingress controller to " +
        "trust PROXY headers from the proxy pods' addresses (ingress-nginx `proxy-real-ip-cidr`, " +
        "Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | check the logs of the proxy (`upstream " +
        "cannot be reached`) and of the ingress controller",
      "ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail",
    ],
  ],
  [
    "a proxy cannot be asked",
    { probe: undefined, ...install({ proxyReadyz: FORBIDDEN }) },
    ["unknown right-missing | proxy | missing permission: get that"],
  ],
  [
    "a listener that is not bound, and an upstream that is well",
    readyz("[+] started", "[-] listener web:80: not bound (EACCES)", `[i] upstream web:80: ok ${SINCE}`),
    [
      "broken proxy-not-serving | proxy | a replica reports: listener web:80: not bound (EACCES) " +
        "| check the proxy's log",
    ],
  ],
  [
    "two dials fail, one with a reason",
    readyz(
      `[i] upstream web:80: failing (timeout: connect) ${SINCE}`,
      `[i] upstream web:443: failing ${SINCE}`,
      `[i] upstream api:80: unknown ${SINCE}`,
    ),
    [
      "broken dial-failing | upstream web:80 | a proxy replica's last dial failed: timeout: " +
        "connect | check the ingress controller's Service and pods, " +
        "and NetworkPolicies between them and the proxy",
      "broken dial-failing | upstream web:443 | a proxy replica's last dial failed: " +
        " | check the ingress controller's Service and pods, and NetworkPolicies between them and the proxy",
    ],
  ],
  [
    "lines that only look like it",
    readyz(`x [i] upstream web:80: failing ${SINCE}`, "x [-] listener"),
    ["ok proxy-serving | proxy | the replica that answered is listening, and none of its dials fail"],
  ],
];

describe("the relay check says whether connections through the proxy succeed:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("relay", { ...HEALTHY, ...change }), findings));
  }
});
