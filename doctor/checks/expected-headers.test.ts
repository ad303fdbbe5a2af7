import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ANSWERED,
  direct,
  MISREAD,
  nginx,
  probe,
  REFUSED,
  rowsOf,
  services,
  TIMEOUT,
} from "#test/fakes/doctor-changes.ts";
import type { Ways } from "#test/fakes/doctor-facts.ts";
import { CLOSED, FORBIDDEN, FRONT, HEALTHY, NGINX, NOT_INSTALLED, probed } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const SILENT = { kind: "silent", detail: "no answer within 10 s" } as const;
const absent = (ways: Ways) => ({ ...NOT_INSTALLED, ...probe({ service: HTTP, ...ways }) });
/** Only port 80, so that there is one finding. */
const HTTP = { ...NGINX, ports: NGINX.ports.slice(0, 1) };
const PROXIED = { ...HTTP, entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] };
const NLB = {
  ...HTTP,
  annotations: { "service.beta.kubernetes.io/aws-load-balancer-type": "external" },
  entries: [{ hostname: "lb.elb.example.com" }],
};
const asked = (ways: Ways) => ({ ...nginx({ ports: HTTP.ports }), ...probe({ service: HTTP, ...ways }) });
const bare = (ways: Ways) => ({ ...direct(), ...asked(ways) });

const noWayTo = (headers: string) =>
  "broken no-way-to-balancer | Service ingress-nginx/ingress-nginx-controller port 80 | pods cannot " +
  "reach its load balancer's address, although it accepts connections without a header: " +
  `from the probe pod's address, without a header: HTTP 404; ${headers}; ` +
  "at its load balancer's address: no connection | install Switchback, and " +
  "annotate the Service with `switchback.dev/map: always`, and with `switchback.dev/proxy-protocol: " +
  "none` if it expects no header";

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "each port",
    {},
    [
      "ok header-accepted | Service ingress-nginx/ingress-nginx-controller port 80 | it requires a header, " +
        "and accepts v1 as its target is configured: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
      "ok header-accepted | Service ingress-nginx/ingress-nginx-controller port 443 | it requires a header, " +
        "and accepts v1 as its target is configured: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  ["a service that was not probed", probe({ service: FRONT }), []],
  [
    "no probe",
    { probe: undefined },
    [
      "unknown not-probed | probe | PROXY protocol support and DNS names were not probed | run with --probe: " +
        "a short-lived pod tests connections and resolves names",
    ],
  ],
  ["a probe that failed", { probe: FORBIDDEN }, ["unknown right-missing | probe | missing permission: get that"]],
  [
    "it requires a header, and gets it",
    asked({}),
    [
      "ok header-accepted | Service ingress-nginx/ingress-nginx-controller port 80 | it requires a header, " +
        "and accepts v1 as its target is configured: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  [
    "it takes both",
    asked({ none: ANSWERED }),
    [
      "ok header-accepted | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts (but does " +
        "not require) a header, and accepts v1 as its target is configured: from the probe pod's address, " +
        "without a header: HTTP 404; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  [
    "it waits in vain for a header, and answers with one",
    asked({ none: SILENT }),
    [
      "ok header-accepted | Service ingress-nginx/ingress-nginx-controller port 80 | it requires a header, " +
        "and accepts v1 as its target is configured: from the probe pod's address, without a header: " +
        "no answer within 10 s; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  [
    "from the proxies alone",
    asked({ v1: CLOSED, v2: CLOSED }),
    [
      "ok header-accepted-from-proxies | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts " +
        "v1 from the proxies' addresses, but not from the probe pod's: from the probe pod's address, " +
        "without a header: the connection was reset; with v1: the connection was reset; with v2: " +
        "the connection was reset; at its load balancer's address: the connection was reset",
    ],
  ],
  [
    "from the proxies alone, and from the probe not in time",
    asked({ v1: SILENT, v2: SILENT }),
    [
      "ok header-accepted-from-proxies | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts " +
        "v1 from the proxies' addresses, but not from the probe pod's: from the probe pod's address, " +
        "without a header: the connection was reset; with v1: no answer within 10 s; with v2: " +
        "no answer within 10 s; at its load balancer's address: the connection was reset",
    ],
  ],
  [
    "it does not answer in time",
    asked({ v1: SILENT, v2: SILENT, front: CLOSED }),
    [
      "unknown stance-unclear | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: the connection was reset; with v1: no answer within 10 s; with v2: " +
        "no answer within 10 s; at its load balancer's address: the connection was reset | check the ingress " +
        "controller's log for the probe's connections; run again",
    ],
  ],
  [
    "it does not answer its target's version in time",
    asked({ v1: SILENT, front: CLOSED }),
    [
      "unknown stance-unclear | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: the connection was reset; with v1: no answer within 10 s; with v2: " +
        "HTTP 404; at its load balancer's address: the connection was reset | check the ingress controller's " +
        "log for the probe's connections; run again",
    ],
  ],
  [
    "it does not answer the other version in time",
    asked({ v1: CLOSED, v2: SILENT, none: ANSWERED, front: CLOSED }),
    [
      "broken header-refused | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol v1, but it rejects a header: from the probe pod's address, without a header: HTTP 404; " +
        "with v1: the connection was reset; with v2: no answer within 10 s; at its load balancer's address: " +
        "the connection was reset | configure the ingress controller to accept PROXY headers | configure the " +
        "ingress controller to trust PROXY headers from the proxy pods' addresses (ingress-nginx " +
        "`proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | or, " +
        "if its load balancer adds no header, set `protocol: none` on this port of the target; " +
        "for a discovered target, annotate the Service with `switchback.dev/proxy-protocol: none`",
    ],
  ],
  [
    "it takes another version",
    asked({ v1: CLOSED, front: CLOSED }),
    [
      "broken header-version-wrong | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol v1, but it accepts only v2: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: the connection was reset; with v2: HTTP 404; " +
        "at its load balancer's address: the connection was reset | set `protocol: " +
        "v2` on this port of the target; for a discovered target, " +
        "annotate the Service with `switchback.dev/proxy-protocol: v2`",
    ],
  ],
  [
    "it answers nothing",
    asked({ v1: CLOSED, v2: CLOSED, front: CLOSED }),
    [
      "broken backend-mute | Service ingress-nginx/ingress-nginx-controller port 80 | it does not answer, " +
        "with or without a header: from the probe pod's address, without a header: the connection was reset; " +
        "with v1: the connection was reset; with v2: the connection was reset; at its load balancer's address: " +
        "the connection was reset | configure the ingress controller to trust PROXY headers from the proxy " +
        "pods' addresses (ingress-nginx `proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, " +
        "IBM's ALB `--cidr`)",
    ],
  ],
  [
    "it reads a header as a request",
    asked({ none: ANSWERED, v1: MISREAD, v2: MISREAD, front: MISREAD }),
    [
      "broken header-refused | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol v1, but it rejects a header: from the probe pod's address, without a header: HTTP 404; " +
        "with v1: HTTP 400; with v2: HTTP 400; at its load balancer's address: " +
        "the connection was reset | configure the ingress controller to accept PROXY headers | configure the " +
        "ingress controller to trust PROXY headers from the proxy pods' addresses (ingress-nginx " +
        "`proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | or, " +
        "if its load balancer adds no header, set `protocol: none` on this port of the target; " +
        "for a discovered target, annotate the Service with `switchback.dev/proxy-protocol: none`",
    ],
  ],
  [
    "it is a known ingress controller",
    {
      ...nginx({ ports: HTTP.ports, labels: { app: "traefik" } }),
      ...probe({ service: HTTP, none: ANSWERED, v1: MISREAD, v2: MISREAD, front: MISREAD }),
    },
    [
      "broken header-refused | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol v1, but it rejects a header: from the probe pod's address, without a header: HTTP 404; " +
        "with v1: HTTP 400; with v2: HTTP 400; at its load balancer's address: " +
        "the connection was reset | Traefik: set `entryPoints.<name>.proxyProtocol.trustedIPs` to the " +
        "addresses that send headers; it takes versions 1 and 2 " +
        "(https://doc.traefik.io/traefik/routing/entrypoints/#proxyprotocol) | Traefik: " +
        "add the proxy pods' addresses to `entryPoints.<name>.proxyProtocol.trustedIPs` " +
        "(https://doc.traefik.io/traefik/routing/entrypoints/#proxyprotocol) | or, " +
        "if its load balancer adds no header, set `protocol: none` on this port of the target; " +
        "for a discovered target, annotate the Service with `switchback.dev/proxy-protocol: none`",
    ],
  ],
  [
    "nothing listens",
    asked({ none: REFUSED, v1: REFUSED, v2: REFUSED }),
    [
      "broken backend-unreachable | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: ECONNREFUSED; with v1: ECONNREFUSED; with v2: ECONNREFUSED; " +
        "at its load balancer's address: the connection was reset | check the ingress controller's pods, " +
        "and NetworkPolicies that select them",
    ],
  ],
  [
    "no header is configured, and it takes both",
    bare({ none: ANSWERED }),
    [
      "ok header-not-needed | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts " +
        "connections without a header, as its target is configured: from the probe pod's address, " +
        "without a header: HTTP 404; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  [
    "no header is configured, and it rejects one",
    bare({ none: ANSWERED, v1: MISREAD, v2: MISREAD }),
    [
      "ok header-not-needed | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts " +
        "connections without a header, as its target is configured: from the probe pod's address, " +
        "without a header: HTTP 404; with v1: HTTP 400; with v2: HTTP 400; at its load balancer's address: " +
        "the connection was reset",
    ],
  ],
  [
    "no header is configured, and it requires one",
    bare({}),
    [
      "broken header-demanded | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol none, but it requires a header: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset | set `protocol: v1` on this port of the target; for a discovered target, " +
        "annotate the Service with `switchback.dev/proxy-protocol: v1`",
    ],
  ],
  [
    "no header is configured, and it requires v2",
    bare({ v1: CLOSED }),
    [
      "broken header-demanded | Service ingress-nginx/ingress-nginx-controller port 80 | its target has " +
        "protocol none, but it requires a header: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: the connection was reset; with v2: HTTP 404; " +
        "at its load balancer's address: the connection was reset | set `protocol: " +
        "v2` on this port of the target; for a discovered target, " +
        "annotate the Service with `switchback.dev/proxy-protocol: v2`",
    ],
  ],
  [
    "no header is configured, and it does not answer in time",
    bare({ none: SILENT, v1: SILENT, v2: SILENT }),
    [
      "unknown stance-unclear | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: no answer within 10 s; with v1: no answer within 10 s; with v2: " +
        "no answer within 10 s; at its load balancer's address: the connection was reset | check the ingress " +
        "controller's log for the probe's connections; run again",
    ],
  ],
  [
    "no header is configured, and it answers nothing",
    bare({ v1: CLOSED, v2: CLOSED }),
    [
      "broken backend-mute | Service ingress-nginx/ingress-nginx-controller port 80 | it does not answer: " +
        "from the probe pod's address, without a header: the connection was reset; with v1: " +
        "the connection was reset; with v2: the connection was reset; at its load balancer's address: " +
        "the connection was reset | check the ingress controller's log",
    ],
  ],
  [
    "no target, and it requires a header",
    absent({}),
    [
      "broken pods-cut-off | Service ingress-nginx/ingress-nginx-controller port 80 | it requires a PROXY " +
        "header, which pods do not send: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset | install Switchback, which maps its names",
    ],
  ],
  [
    "no target, it requires a header, and its address has ipMode Proxy",
    { ...NOT_INSTALLED, ...probe({ service: PROXIED }), ...services(PROXIED) },
    [
      "broken ip-mode-ignored | Service ingress-nginx/ingress-nginx-controller port 80 | its address has " +
        "ipMode Proxy, but pods get no answer there: the network plugin ignores ipMode, " +
        "or pods cannot reach the load balancer: from the probe pod's address, without a header: " +
        "the connection was reset; with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: " +
        "the connection was reset | update the network plugin (Cilium honours ipMode from 1.18.1) " +
        "| install Switchback, and annotate the Service with `switchback.dev/map: always`, " +
        "and with `switchback.dev/proxy-protocol: none` if it expects no header",
    ],
  ],
  [
    "no target, and pods get through at an address with ipMode Proxy",
    { ...NOT_INSTALLED, ...probe({ service: PROXIED, balancer: ANSWERED }), ...services(PROXIED) },
    [
      "ok pods-reach-it | Service ingress-nginx/ingress-nginx-controller port 80 | pods reach it by its load " +
        "balancer's address; so this cluster's network leaves an address with ipMode Proxy alone: " +
        "from the probe pod's address, without a header: the connection was reset; with v1: HTTP 404; with v2: " +
        "HTTP 404; at its load balancer's address: HTTP 404",
    ],
  ],
  [
    "no target, no header, and no answer at a host name, as of an AWS NLB that keeps client addresses",
    {
      ...NOT_INSTALLED,
      ...probe({ service: NLB, none: ANSWERED, v1: MISREAD, v2: MISREAD, balancer: TIMEOUT }),
      ...services(NLB),
    },
    [
      "broken no-way-to-balancer | Service ingress-nginx/ingress-nginx-controller port 80 | pods cannot " +
        "reach its load balancer's address, although it accepts connections without a header: " +
        "from the probe pod's address, without a header: HTTP 404; with v1: HTTP 400; with v2: HTTP 400; " +
        "at its load balancer's address: no connection | AWS: turn off the preservation of client addresses: " +
        "annotate the Service with `service.beta.kubernetes.io/aws-load-balancer-target-group-attributes: " +
        "preserve_client_ip.enabled=false` | install Switchback, and " +
        "annotate the Service with `switchback.dev/map: always`, and with `switchback.dev/proxy-protocol: " +
        "none` if it expects no header",
    ],
  ],
  [
    "no target, and the load balancer answers",
    absent({ balancer: ANSWERED }),
    [
      "ok pods-reach-it | Service ingress-nginx/ingress-nginx-controller port 80 | pods reach it by its load " +
        "balancer's address: from the probe pod's address, without a header: the connection was reset; " +
        "with v1: HTTP 404; with v2: HTTP 404; at its load balancer's address: HTTP 404",
    ],
  ],
  [
    "no target, and it takes both, but not at the load balancer",
    absent({ none: ANSWERED, balancer: TIMEOUT }),
    [noWayTo("with v1: HTTP 404; with v2: HTTP 404")],
  ],
  [
    "no target, and it rejects headers, and nothing answers at the load balancer",
    absent({ none: ANSWERED, v1: MISREAD, v2: MISREAD, balancer: TIMEOUT }),
    [noWayTo("with v1: HTTP 400; with v2: HTTP 400")],
  ],
  [
    "no target, and packets are dropped, as by its loadBalancerSourceRanges: the header is not the cause",
    {
      ...NOT_INSTALLED,
      ...probe({ service: HTTP, balancer: TIMEOUT }),
      ...services({ ...HTTP, sourceRanges: ["203.0.113.0/24"] }),
    },
    [
      "broken source-ranges | Service ingress-nginx/ingress-nginx-controller port 80 | pods get no connection " +
        "at its load balancer's address, and its loadBalancerSourceRanges admit 203.0.113.0/24: " +
        "kube-proxy drops connections from other addresses, with or without a header: from the probe pod's address, " +
        "without a header: the connection was reset; with v1: HTTP 404; with v2: HTTP 404; " +
        "at its load balancer's address: no connection | add the pods' addresses to `loadBalancerSourceRanges` " +
        "of the Service (203.0.113.0/24) | install Switchback, and " +
        "annotate the Service with `switchback.dev/map: always`, and with `switchback.dev/proxy-protocol: " +
        "none` if it expects no header",
    ],
  ],
  [
    "no target, and it answers nothing",
    absent({ v1: CLOSED, v2: CLOSED }),
    [
      "unknown stance-unclear | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: the connection was reset; with v1: the connection was reset; " +
        "with v2: the connection was reset; at its load balancer's address: " +
        "the connection was reset | check the ingress controller's log for the probe's connections; run again",
    ],
  ],
  [
    "no target, and the load balancer's address was not called",
    {
      ...NOT_INSTALLED,
      probe: known({
        ...probed({}),
        dials: probed({ service: HTTP, none: ANSWERED }).dials.filter(({ via }) => via === "service"),
      }),
    },
    [
      "unknown stance-unclear | Service ingress-nginx/ingress-nginx-controller port 80 | from the probe " +
        "pod's address, without a header: HTTP 404; with v1: HTTP 404; with v2: " +
        "HTTP 404 | check the ingress controller's log for the probe's connections; run again",
    ],
  ],
];

describe("the headers check compares what the backend accepts with the protocol of its target:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("headers", { ...HEALTHY, ...change }), findings));
  }
});
