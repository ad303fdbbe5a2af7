import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { type ClusterFacts, objectKey, type ServiceFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isMapped, targetsOf, upstreamService } from "../targets.ts";

const { broken, unknown } = findingsOf("targets");

/** Whether each target that names lead to has an ingress controller. Nobody but a person can repair that. */
export function checkTargets(facts: ClusterFacts): Finding[] {
  const { targets } = facts.install;
  if (!targets.known) return [unknown("targets", targets.reason.code, targets.reason.text)];
  const { services } = facts;
  // If the Services cannot be read, another check reports it once.
  if (!services.known) return [];
  const byName = new Map(services.value.map((service) => [objectKey(service), service]));
  return targetsOf(facts)
    .filter(isMapped)
    .flatMap((target) => checkUpstream(target, byName, facts));
}

function checkUpstream(
  target: PublishedTarget,
  services: ReadonlyMap<string, ServiceFacts>,
  { endpoints }: ClusterFacts,
): Finding[] {
  const { name, ports } = target;
  const upstream = upstreamService(target);
  if (upstream === undefined) return [];
  const subject = `target ${name}`;
  const key = objectKey(upstream);
  const service = services.get(key);
  if (service === undefined) {
    const cure = "set `upstream.service` of this target to the Service of the ingress controller";
    return [broken(subject, "upstream-missing", `there is no Service ${key}`, cure)];
  }
  const missing = ports.filter(({ upstreamPort }) => !service.ports.some(({ port }) => port === upstreamPort));
  const findings: Finding[] = [];
  if (missing.length > 0) {
    const has = service.ports.map(({ port }) => port).join(", ") || "no TCP port";
    const cure = "list the ports of the Service under `ports` of this target (`upstreamPort` where they differ)";
    const list = missing.map(({ upstreamPort }) => upstreamPort).join(", ");
    const evidence = `Service ${key} has no port ${list}; it has ${has}`;
    findings.push(broken(subject, "upstream-port-missing", evidence, cure));
  }
  if (!endpoints.known) return [...findings, unknown(subject, endpoints.reason.code, endpoints.reason.text)];
  if (endpoints.value.find((entry) => objectKey(entry) === key)?.ready === 0) {
    const evidence = `no endpoint of Service ${key} is ready`;
    findings.push(broken(subject, "upstream-without-endpoints", evidence, "check the ingress controller's pods"));
  }
  return findings;
}
