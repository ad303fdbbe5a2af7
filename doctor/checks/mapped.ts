import { MAP_KEY, PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { dependsOnAddress, describePorts, type LoadBalancer, type ProbedPort, probedPorts } from "../load-balancers.ts";
import { answered } from "../probe/proxy-protocol-support.ts";
import { entryFor, type Target } from "../targets.ts";
import { acceptCure, trustCure } from "../ways-out.ts";

const { ok, broken, unknown } = findingsOf("reach");

interface MappedPort {
  readonly subject: string;
  readonly port: ProbedPort;
  readonly evidence: string;
  readonly software: LoadBalancer["software"];
}

/** Whether the names of a load balancer work through the target that covers them. */
export function checkMapped(loadBalancer: LoadBalancer & { readonly target: Target }, facts: ClusterFacts): Finding[] {
  const { service, target, software } = loadBalancer;
  const key = `Service ${objectKey(service)}`;
  const findings = probedPorts(loadBalancer, facts).flatMap((port) => {
    const entry = entryFor(target, port.port);
    const subject = `${key} port ${port.port}`;
    const mapped = { subject, port, evidence: describePorts([port]), software };
    if (entry === undefined) return target.ports.length === 0 ? [checkWithoutHeader(mapped)] : [];
    const { protocol } = entry;
    const front = `front Service ${facts.namespace}/${frontName(target.name)} port ${entry.port}`;
    const own = protocol === "none" ? checkWithoutHeader(mapped) : checkWithHeader(mapped, protocol);
    return [own, ...checkFront(front, mapped, protocol)];
  });
  const through = target.ports.length > 0 ? "the proxies" : "its ClusterIP";
  const evidence = `pods that opted in reach it through ${through} (target ${target.name})`;
  return findings.length > 0 ? findings : [ok(key, "short-circuit-cured", evidence)];
}

function checkWithoutHeader({ subject, port: { support }, evidence }: MappedPort): Finding {
  if (support.kind === "unreachable") return broken(subject, "backend-unreachable", evidence, CHECK_BACKEND);
  if (support.kind === "unclear") return unclear(subject, evidence);
  if (support.kind === "accepts" || support.kind === "refuses") return ok(subject, "header-not-needed", evidence);
  if (support.kind === "demands") {
    const reason = `its target has protocol none, but it demands a header; ${evidence}`;
    return broken(subject, "header-demanded", reason, protocolCure(support.versions[0] ?? "v1"));
  }
  return broken(subject, "backend-mute", `it does not answer; ${evidence}`, "check the ingress controller's log");
}

function checkWithHeader(mapped: MappedPort, protocol: "v1" | "v2"): Finding {
  const { subject, port, evidence, software } = mapped;
  const { support, front } = port;
  if (support.kind === "unreachable") return broken(subject, "backend-unreachable", evidence, CHECK_BACKEND);
  if (support.versions.includes(protocol))
    return ok(subject, "header-accepted", `it takes ${protocol}, which the proxies send; ${evidence}`);
  if (front !== undefined && answered(front)) {
    const reason = `it takes ${protocol} from the proxies, but not from the probe pod; ${evidence}`;
    return ok(subject, "header-accepted", reason);
  }
  if (support.kind === "unclear" || support.silent.includes(protocol)) return unclear(subject, evidence);
  const [other] = support.versions;
  if (other !== undefined) {
    const reason = `its target has protocol ${protocol}, but it takes only ${other}; ${evidence}`;
    return broken(subject, "header-version-wrong", reason, protocolCure(other));
  }
  if (support.kind === "mute") {
    const reason = `it does not answer, with or without a header; ${evidence}`;
    return broken(subject, "backend-mute", reason, trustCure(software));
  }
  if (dependsOnAddress(port)) return headerByAddress(subject, evidence, software);
  const reason = `its target has protocol ${protocol}, but it refuses a header; ${evidence}`;
  const none = `or, if its load balancer adds no header, ${protocolCure("none")}`;
  return broken(subject, "header-refused", reason, trustCure(software), acceptCure(software), none);
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

/** What the probe saw at the front Service: there, the ingress controller sees the proxies' addresses. */
function checkFront(subject: string, { port, software }: MappedPort, protocol: "v1" | "v2" | "none"): Finding[] {
  const { front, support } = port;
  if (front === undefined) return [];
  const { kind, detail } = front.outcome;
  const evidence = `through the proxies: ${detail}`;
  if (kind === "answered") return [ok(subject, "relay-answers", evidence)];
  if (kind === "refused" || kind === "timeout" || kind === "unreachable") {
    const cure = "check the proxies' pods, and NetworkPolicies that select them";
    return [broken(subject, "relay-unreachable", evidence, cure)];
  }
  const isTaken = protocol !== "none" && support.versions.includes(protocol);
  // The backend may be slow, unless it answered the same header without the proxy.
  if (kind === "silent" && !isTaken) return [unclear(subject, evidence)];
  const contrast = isTaken ? "; the same header from the probe pod's own address is answered" : "";
  const log = "check the logs of the proxy (`upstream cannot be reached`) and of the ingress controller";
  return [broken(subject, "relay-refused", `${evidence}${contrast}`, trustCure(software), log)];
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
