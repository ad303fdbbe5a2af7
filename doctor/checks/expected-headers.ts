import { MAP_KEY, PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { acceptCure, trustCure } from "../header-cures.ts";
import {
  filteredBy,
  findLoadBalancers,
  isDropped,
  isProxied,
  type LoadBalancer,
  shortCircuited,
} from "../load-balancers.ts";
import {
  answered,
  dialOf,
  type ProxyProtocolSupport,
  proxyProtocolSupportOf,
  type ServicePortRef,
} from "../probe/proxy-protocol-support.ts";
import type { ProbeResult } from "../probe/result.ts";
import { entryFor } from "../targets.ts";
import { mappingCure, waysOut } from "../ways-out.ts";

const { ok, broken, unknown } = findingsOf("headers");

/** Compares each ingress controller's PROXY protocol support with the protocol of its target. */
export function checkHeaders(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  if (probe === undefined) {
    const evidence = "PROXY protocol support and DNS names were not probed";
    return [
      unknown(
        "probe",
        "not-probed",
        evidence,
        "run with --probe: a short-lived pod tests connections and resolves names",
      ),
    ];
  }
  if (!probe.known) return [unknown("probe", probe.reason.code, probe.reason.text)];
  return findLoadBalancers(facts).flatMap((loadBalancer) => {
    return loadBalancer.service.ports.flatMap(
      (port) => checkPort({ loadBalancer, port, result: probe.value, facts }) ?? [],
    );
  });
}

interface PortProbe {
  readonly loadBalancer: LoadBalancer;
  readonly port: ServicePort;
  readonly result: ProbeResult;
  readonly facts: ClusterFacts;
}

interface PortResult extends PortProbe {
  readonly subject: string;
  readonly support: ProxyProtocolSupport;
  /** Whether the load balancer's own address answered the probe pod; undefined if not probed. */
  readonly direct: boolean | undefined;
  /** Whether the load balancer's own address answered a connection with a header. */
  readonly directWithHeader: boolean;
  /** Whether the front Service answered. On this route the ingress controller sees the proxies' addresses. */
  readonly relayed: boolean | undefined;
  readonly evidence: string;
}

function checkPort(asked: PortProbe): Finding | undefined {
  const { loadBalancer, port, result } = asked;
  const portRef: ServicePortRef = { service: objectKey(loadBalancer.service), servicePort: port.port };
  const support = proxyProtocolSupportOf(result, portRef);
  if (support === undefined) return undefined;
  const [direct, front] = [dialOf(result, portRef, "balancer"), dialOf(result, portRef, "front")];
  const directWithHeader = dialOf(result, portRef, "balancer", "v1");
  const portResult: PortResult = {
    ...asked,
    subject: `Service ${portRef.service} port ${port.port}`,
    support,
    direct: direct && answered(direct),
    directWithHeader: directWithHeader !== undefined && answered(directWithHeader),
    relayed: front && answered(front),
    evidence:
      "from the probe pod's address, " +
      `${support.detail}${direct ? `; at its load balancer's address: ${direct.outcome.detail}` : ""}`,
  };
  if (support.kind === "unreachable") {
    return broken(
      portResult.subject,
      "backend-unreachable",
      portResult.evidence,
      "check the ingress controller's pods, and NetworkPolicies that select them",
    );
  }
  const entry = entryFor(loadBalancer.target, port.port);
  if (entry === undefined) return checkUnmapped(portResult);
  return entry.protocol === "none" ? checkWithoutHeader(portResult) : checkWithHeader(portResult, entry.protocol);
}

/** Checks a port that no target covers: pods call the load balancer's address. */
function checkUnmapped(portResult: PortResult): Finding {
  const { subject, support, direct, evidence, loadBalancer, facts } = portResult;
  if (direct === true) {
    const honoured = isProxied(loadBalancer)
      ? "; so this cluster's network leaves an address with ipMode Proxy alone"
      : "";
    return ok(subject, "pods-reach-it", `pods reach it by its load balancer's address${honoured}: ${evidence}`);
  }
  const cures = waysOut(loadBalancer, facts);
  const ranges = filteredBy(loadBalancer);
  if (ranges.length > 0 && isDropped(loadBalancer, facts)) {
    const reason =
      "pods get no connection at its load balancer's address, and its loadBalancerSourceRanges admit " +
      `${ranges.join(", ")}: kube-proxy drops connections from other addresses, with or without a header: ${evidence}`;
    return broken(subject, "source-ranges", reason, ...cures);
  }
  if (support.kind === "demands" && direct === false && isProxied(loadBalancer)) {
    const reason =
      "its address has ipMode Proxy, but pods get no answer there: the network plugin ignores ipMode, " +
      `or pods cannot reach the load balancer: ${evidence}`;
    const update = "update the network plugin (Cilium honours ipMode from 1.18.1)";
    return broken(subject, "ip-mode-ignored", reason, update, ...cures);
  }
  if (support.kind === "demands") {
    return broken(subject, "pods-cut-off", `it requires a PROXY header, which pods do not send: ${evidence}`, ...cures);
  }
  if (dependsOnAddress(portResult)) return checkByAddress(portResult);
  if (direct === false && (support.kind === "accepts" || support.kind === "refuses")) {
    const reason =
      "pods cannot reach its load balancer's address, although it accepts connections without a header: " +
      `${evidence}`;
    // A header is not what keeps pods out, so the other cures would not help.
    const own = shortCircuited(loadBalancer).length > 0 ? [mappingCure(loadBalancer.service, facts, true)] : cures;
    return broken(subject, "no-way-to-balancer", reason, ...own);
  }
  return unclear(portResult);
}

/**
 * Whether the ingress controller demands a header from a list of addresses and refuses one from all others, as
 * HAProxy's `expect-proxy layer4 if { src -f LIST }` does (haproxytech/kubernetes-ingress, pkg/haproxy/rules). The
 * list has the nodes, not the pods: kube-proxy masquerades pods that call an external address (pkg/proxy/iptables,
 * `KUBE-EXT`).
 */
function dependsOnAddress({ support, direct, directWithHeader }: PortResult): boolean {
  return support.kind === "refuses" && direct === false && directWithHeader;
}

/**
 * Reports a port for which `dependsOnAddress` is true. To proxies that are not in the list, such a port looks as if the
 * PROXY protocol were off.
 */
function checkByAddress({ subject, evidence, loadBalancer }: PortResult): Finding {
  const reason =
    "it demands a header from the addresses in its list, and refuses one from others: at its load balancer's address " +
    "pods have the address of a node, and need one; it refuses one from the probe pod's own address, as from a proxy " +
    `that is not in the list: ${evidence}; there with v1, it answers`;
  const direct =
    `or annotate the Service with \`${MAP_KEY}: always\` and \`${PROXY_PROTOCOL_KEY}: none\`: its names then lead ` +
    "to its ClusterIPs, where pods need no header";
  return broken(subject, "header-by-address", reason, trustCure(loadBalancer.software), direct);
}

function unclear({ subject, evidence }: PortResult): Finding {
  return unknown(
    subject,
    "stance-unclear",
    evidence,
    "check the ingress controller's log for the probe's connections; run again",
  );
}

function checkWithoutHeader(portResult: PortResult): Finding {
  const { subject, support, evidence } = portResult;
  if (support.kind === "unclear") return unclear(portResult);
  if (support.kind === "accepts" || support.kind === "refuses") {
    return ok(
      subject,
      "header-not-needed",
      `it accepts connections without a header, as its target is configured: ${evidence}`,
    );
  }
  if (support.kind === "demands") {
    const reason = `its target has protocol none, but it requires a header: ${evidence}`;
    return broken(subject, "header-demanded", reason, protocolCure(support.versions[0] ?? "v1"));
  }
  return broken(subject, "backend-mute", `it does not answer: ${evidence}`, "check the ingress controller's log");
}

function checkWithHeader(portResult: PortResult, protocol: "v1" | "v2"): Finding {
  const { subject, support, evidence, loadBalancer, relayed } = portResult;
  if (support.versions.includes(protocol)) {
    const how = support.kind === "demands" ? "requires" : "accepts (but does not require)";
    return ok(
      subject,
      "header-accepted",
      `it ${how} a header, and accepts ${protocol} as its target is configured: ${evidence}`,
    );
  }
  if (relayed === true) {
    const reason = `it accepts ${protocol} from the proxies' addresses, but not from the probe pod's: ${evidence}`;
    return ok(subject, "header-accepted-from-proxies", reason);
  }
  if (support.kind === "unclear" || support.silent.includes(protocol)) return unclear(portResult);
  const [other] = support.versions;
  if (other !== undefined) {
    const reason = `its target has protocol ${protocol}, but it accepts only ${other}: ${evidence}`;
    return broken(subject, "header-version-wrong", reason, protocolCure(other));
  }
  if (support.kind === "mute") {
    return broken(
      subject,
      "backend-mute",
      `it does not answer, with or without a header: ${evidence}`,
      trustCure(loadBalancer.software),
    );
  }
  if (dependsOnAddress(portResult)) return checkByAddress(portResult);
  const reason = `its target has protocol ${protocol}, but it rejects a header: ${evidence}`;
  const none = `or, if its load balancer adds no header, ${protocolCure("none")}`;
  return broken(
    subject,
    "header-refused",
    reason,
    acceptCure(loadBalancer.software),
    trustCure(loadBalancer.software),
    none,
  );
}

function protocolCure(protocol: "v1" | "v2" | "none"): string {
  return (
    `set \`protocol: ${protocol}\` on this port of the target; for a discovered target, ` +
    `annotate the Service with \`${PROXY_PROTOCOL_KEY}: ${protocol}\``
  );
}
