import { statedProtocol } from "#controller/targets/proxy-protocol-annotations.ts";
import { type ClusterFacts, type NamesFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import {
  filteredBy,
  findLoadBalancers,
  isProxied,
  type LoadBalancer,
  portsOf,
  shortCircuited,
} from "../load-balancers.ts";
import { PROBE_SECONDS } from "../probe/pod.ts";
import { answered, dependsOnAddress, describePorts, isDropped, type ProbedPort } from "../probe/probed-ports.ts";
import { isMapped } from "../targets.ts";
import { mappingCure, waysOut } from "../ways-out.ts";
import { CHECK_BACKEND, checkMapped, headerByAddress } from "./mapped.ts";

const { ok, broken, unknown } = findingsOf("reach");

const NAMES = "public names";

/**
 * Whether pods reach each load balancer of the cluster: at its own address, or through a target if one covers its
 * names. kube-proxy handles an IP in the Service's status itself, unless the entry has `ipMode: Proxy` (KEP-1860), or
 * the Service has no ClusterIP of its family. It ignores hostnames.
 */
export function checkReach(facts: ClusterFacts): Finding[] {
  const { services, names, probe } = facts;
  const unread = names.known ? checkUnread(names.value.unread) : [unknown(NAMES, names.reason.code, names.reason.text)];
  if (!services.known) return [unknown("load balancers", services.reason.code, services.reason.text), ...unread];
  const failed = probe?.known === false ? [unknown("probe", probe.reason.code, probe.reason.text)] : [];
  const found = findLoadBalancers(facts).flatMap((loadBalancer) => checkLoadBalancer(loadBalancer, facts));
  const none = "no Service has an address of an ingress controller's load balancer that kube-proxy handles";
  const findings = found.length > 0 || unread.length > 0 ? found : [ok("load balancers", "need-none", none)];
  return [...findings, ...failed, ...unread];
}

/** One finding for each reason why kinds could not be read. */
function checkUnread(unread: NamesFacts["unread"]): Finding[] {
  return [...Map.groupBy(unread, ({ code }) => code)].map(([code, same]) => {
    return unknown(NAMES, code, `${same.map(({ kind }) => kind).join(", ")}: ${same[0]?.text}`);
  });
}

function checkLoadBalancer(loadBalancer: LoadBalancer, facts: ClusterFacts): Finding[] {
  const { service, target, names } = loadBalancer;
  const subject = `Service ${objectKey(service)}`;
  const findings =
    target !== undefined && isMapped(target)
      ? checkMapped({ ...loadBalancer, target }, facts)
      : unlessCovered([checkUnmapped(loadBalancer, facts)].flat(), facts);
  return findings.map((finding) =>
    finding.subject.startsWith(subject) ? { ...finding, names: names.length } : finding,
  );
}

/** If the targets of an installation are unknown, one may cover the names. Then nothing is said against it. */
function unlessCovered(findings: readonly Finding[], facts: ClusterFacts): readonly Finding[] {
  const { targets } = facts.install;
  if (targets.known || isInstalled(facts) === false) return findings;
  const { code, text } = targets.reason;
  return findings.map((finding) =>
    finding.status === "ok" ? finding : unknown(finding.subject, code, `${text}: a target may cover its names`),
  );
}

function checkUnmapped(loadBalancer: LoadBalancer, facts: ClusterFacts): Finding | Finding[] {
  const { service, target } = loadBalancer;
  const subject = `Service ${objectKey(service)}`;
  if (service.entries.length === 0) {
    if (service.type !== "LoadBalancer") return [];
    return unknown(subject, "need-pending", "its load balancer has no address yet", "check the Service's Events");
  }
  const ports = portsOf(loadBalancer, facts);
  if (ports.length > 0) return checkPorts(loadBalancer, ports, facts);
  const bypassed = shortCircuited(loadBalancer);
  if (bypassed.length === 0) return ok(subject, "not-short-circuited", whyNot(loadBalancer));
  const isExternal = service.entries.every(({ external }) => external);
  const hasMode = service.entries.some(({ ipMode }) => ipMode === "VIP");
  const field = isExternal ? "externalIPs" : hasMode ? "ipMode VIP" : "status without ipMode Proxy";
  const header = headerOf(service);
  const evidence = `${header}pods bypass the load balancer of ${bypassed.join(", ")} (${field})`;
  const { ask = [] } = target ?? {};
  if (ask.length > 0 && ask.every(({ answer }) => answer === "optional" || answer === "refuses-header"))
    return ok(subject, "pods-reach-it", `${evidence}; it answered the proxies without a header, so pods reach it`);
  const ranges = filteredBy(loadBalancer);
  const filter = ranges.length === 0 ? "" : `, or if loadBalancerSourceRanges (${ranges.join(", ")}) leave them out`;
  const unsaid = header === "" ? "No annotation asks it for PROXY headers. " : "";
  const harm = `${evidence}. ${unsaid}If the ingress controller demands a PROXY header${filter}, they are cut off`;
  return unknown(subject, "need-unseen", harm, probeCommand(facts), ...waysOut(loadBalancer, facts));
}

/** Says that the load balancer adds PROXY headers, if an annotation states it. */
function headerOf({ annotations, ports }: LoadBalancer["service"]): string {
  const stated = ports.map(({ port }) => statedProtocol(annotations, port));
  const [says] = stated.flatMap((each) => (each && each.protocol !== "none" ? each.says : []));
  return says === undefined ? "" : `its load balancer adds PROXY headers (${says}), and `;
}

/** The command that finds out what only a probe shows. A probe that failed needs another image or namespace. */
function probeCommand({ probe, probeNamespace }: ClusterFacts): string {
  if (probe !== undefined) return "switchback doctor --probe --image IMAGE --probe-namespace NAMESPACE";
  return `switchback doctor --probe   # one pod in the namespace ${probeNamespace} for up to ${PROBE_SECONDS} s`;
}

/** Why kube-proxy does not short-circuit it. */
function whyNot(loadBalancer: LoadBalancer): string {
  const { service, addresses } = loadBalancer;
  if (isProxied(loadBalancer))
    return `${addresses.join(", ")} in its status has ipMode Proxy: pods use the load balancer`;
  const hasIp = service.entries.some(({ ip }) => ip !== undefined);
  const what = hasIp ? "without a ClusterIP of that family" : "and no IP";
  return `its status has ${addresses.join(", ")} ${what}: pods use the load balancer`;
}

/** The codes of a port, the worst first. One broken port breaks the Service for its callers. */
const RANKED = [
  "source-ranges",
  "ip-mode-ignored",
  "pods-cut-off",
  "header-by-address",
  "no-way-to-balancer",
  "backend-unreachable",
  "stance-unclear",
  "pods-reach-it",
] as const;
type Code = (typeof RANKED)[number];

/** What the probe saw at a load balancer whose address pods call. */
function checkPorts(loadBalancer: LoadBalancer, ports: readonly ProbedPort[], facts: ClusterFacts): Finding {
  const { service, software } = loadBalancer;
  const subject = `Service ${objectKey(service)}`;
  const codes = ports.map((port) => codeOf(port, ports, loadBalancer));
  const code = RANKED.find((each) => codes.includes(each)) ?? "stance-unclear";
  const evidence = describePorts(ports.filter((_port, index) => codes[index] === code));
  const cures = waysOut(loadBalancer, facts);
  switch (code) {
    case "source-ranges": {
      const ranges = `its loadBalancerSourceRanges admit ${filteredBy(loadBalancer).join(", ")}`;
      const reason = `${ranges}, and kube-proxy drops connections from others; ${evidence}`;
      return broken(subject, "source-ranges", reason, ...cures);
    }
    case "ip-mode-ignored": {
      const update = "update the network plugin (Cilium honours ipMode from 1.18.1)";
      const reason = `its address has ipMode Proxy, but pods do not get through to the load balancer; ${evidence}`;
      return broken(subject, "ip-mode-ignored", reason, update, ...cures);
    }
    case "pods-cut-off":
      return broken(subject, "pods-cut-off", evidence, ...cures);
    case "header-by-address":
      return headerByAddress(subject, evidence, software);
    case "no-way-to-balancer": {
      // A header is not what keeps pods out, so the other cures would not help.
      const isBypassed = shortCircuited(loadBalancer).length > 0;
      return broken(
        subject,
        "no-way-to-balancer",
        evidence,
        ...(isBypassed ? [mappingCure(service, facts, true)] : cures),
      );
    }
    case "backend-unreachable":
      return broken(subject, "backend-unreachable", evidence, CHECK_BACKEND);
    case "stance-unclear":
      return unknown(subject, "stance-unclear", evidence, "check the ingress controller's log; run again");
    case "pods-reach-it": {
      const honoured = isProxied(loadBalancer)
        ? "this cluster's network leaves an address with ipMode Proxy alone; "
        : "";
      return ok(subject, "pods-reach-it", `${honoured}${evidence}`);
    }
  }
}

function codeOf(port: ProbedPort, ports: readonly ProbedPort[], loadBalancer: LoadBalancer): Code {
  const { kind, direct } = port;
  if (kind === "unreachable") return "backend-unreachable";
  if (answered(direct)) return "pods-reach-it";
  if (filteredBy(loadBalancer).length > 0 && isDropped(ports)) return "source-ranges";
  if (kind === "demands") return direct && isProxied(loadBalancer) ? "ip-mode-ignored" : "pods-cut-off";
  if (dependsOnAddress(port)) return "header-by-address";
  return direct && (kind === "accepts" || kind === "refuses") ? "no-way-to-balancer" : "stance-unclear";
}
