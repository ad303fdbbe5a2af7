import { MAP_KEY, PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import { frontName } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { type LoadBalancer, portsOf } from "../load-balancers.ts";
import { answered, dependsOnAddress, describePorts, type ProbedPort } from "../probe/probed-ports.ts";
import { entryFor } from "../targets.ts";
import { acceptCure, trustCure } from "../ways-out.ts";

const { ok, broken, unknown } = findingsOf("reach");

type Mapped = LoadBalancer & { readonly target: PublishedTarget };

/** Whether the names of a load balancer work through the target that covers them. */
export function checkMapped(loadBalancer: Mapped, facts: ClusterFacts): Finding[] {
  const { service, target } = loadBalancer;
  const key = `Service ${objectKey(service)}`;
  const check = (port: ProbedPort) =>
    target.ports.length === 0 ? checkDirect(`${key} port ${port.port}`, port) : checkRelayed(loadBalancer, port);
  const findings = portsOf(loadBalancer, facts).flatMap(check);
  const through = target.ports.length > 0 ? "the proxies" : "its ClusterIP";
  const evidence = `pods that opted in reach it through ${through} (target ${target.name})`;
  return findings.length > 0 ? findings : [ok(key, "short-circuit-cured", evidence)];
}

/** A port whose names lead to the ClusterIP: pods send no header. */
function checkDirect(subject: string, port: ProbedPort): Finding {
  const evidence = describePorts([port]);
  if (port.kind === "unreachable") return broken(subject, "backend-unreachable", evidence, CHECK_BACKEND);
  if (port.kind === "unclear") return unclear(subject, evidence);
  if (port.kind !== "demands") return ok(subject, "pods-reach-it", evidence);
  const reason = `its target has protocol none, but it demands a header; ${evidence}`;
  return broken(subject, "pods-cut-off", reason, protocolCure(port.versions[0] ?? "v1"));
}

/** What the probe saw at the front Service: there, the ingress controller sees the proxies' addresses. */
function checkRelayed({ service, target, software }: Mapped, port: ProbedPort): Finding[] {
  const { front, versions } = port;
  const entry = entryFor(target, port.port);
  if (entry === undefined || front === undefined) return [];
  const { protocol } = entry;
  const subject = `Service ${objectKey(service)} port ${port.port}`;
  const { kind, detail } = front;
  const through = `through the proxies (Service ${frontName(target.name)} port ${entry.port}): ${detail}`;
  if (answered(front)) return [ok(subject, "relay-answers", through)];
  if (kind === "refused" || kind === "timeout" || kind === "unreachable") {
    const cure = "check the proxies' pods, and NetworkPolicies that select them";
    return [broken(subject, "relay-unreachable", through, cure)];
  }
  const evidence = `${through}; ${describePorts([port])}`;
  if (port.kind === "unreachable") return [broken(subject, "backend-unreachable", evidence, CHECK_BACKEND)];
  const isTaken = protocol !== "none" && versions.includes(protocol);
  // The backend may be slow, unless it answered the same header without the proxy.
  if (kind === "silent" && !isTaken) return [unclear(subject, evidence)];
  if (dependsOnAddress(port)) return [headerByAddress(subject, evidence, software)];
  const [other] = versions;
  const log = "check the logs of the proxy (`upstream cannot be reached`) and of the ingress controller";
  if (isTaken || (other === undefined && port.kind !== "refuses"))
    return [broken(subject, "relay-refused", evidence, trustCure(software), log)];
  const reason = `its target has protocol ${protocol}; ${evidence}`;
  if (other !== undefined) return [broken(subject, "relay-refused", reason, protocolCure(other))];
  const none = `or, if its load balancer adds no header, ${protocolCure("none")}`;
  return [broken(subject, "relay-refused", reason, trustCure(software), acceptCure(software), none)];
}

/** Reports a port for which `dependsOnAddress` is true. */
export function headerByAddress(subject: string, evidence: string, software: LoadBalancer["software"]): Finding {
  const reason =
    "it demands a header from the addresses in its list, which has the nodes, and refuses one from others; " +
    `${evidence}; there with v1, it answers`;
  const direct =
    `or annotate the Service with \`${MAP_KEY}: always\` and \`${PROXY_PROTOCOL_KEY}: none\`: its names then lead to ` +
    "its ClusterIPs, where pods need no header";
  return broken(subject, "header-by-address", reason, trustCure(software), direct);
}

export const CHECK_BACKEND = "check the ingress controller's pods, and NetworkPolicies that select them";

function unclear(subject: string, evidence: string): Finding {
  return unknown(subject, "stance-unclear", evidence, "check the ingress controller's log; run again");
}

function protocolCure(protocol: "v1" | "v2" | "none"): string {
  return (
    `set \`protocol: ${protocol}\` on this port of the target; for a discovered target, ` +
    `annotate the Service with \`${PROXY_PROTOCOL_KEY}: ${protocol}\``
  );
}
