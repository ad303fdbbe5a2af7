import { frontName } from "#lib/documents/listeners.ts";
import { type ClusterFacts, objectKey, type ServiceFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { type Target, targetsOf } from "../targets.ts";

const { ok, warning, broken, unknown } = findingsOf("targets");

/** Whether each target has an upstream Service and, if it is relayed, a front Service. */
export function checkTargets(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { config, targets: published } = facts.install;
  const unread = [config, published].flatMap((fact) =>
    fact.known ? [] : [unknown("targets", fact.reason.code, fact.reason.text)],
  );
  if (config.known && config.value === undefined) {
    const evidence = `namespace ${facts.namespace} has no configuration: new pods of Switchback do not start`;
    unread.push(broken("targets", "config-missing", evidence, "reapply the chart"));
  }
  const targets = targetsOf(facts);
  if (!facts.services.known) {
    const { code, text } = facts.services.reason;
    return [...unread, ...targets.map(({ name }) => unknown(`target ${name}`, code, text))];
  }
  const services = new Map(facts.services.value.map((service) => [objectKey(service), service]));
  return [...unread, ...targets.flatMap((target) => checkTarget(target, services, facts))];
}

type Services = ReadonlyMap<string, ServiceFacts>;

function checkTarget(target: Target, services: Services, facts: ClusterFacts): Finding[] {
  const subject = `target ${target.name}`;
  const upstream = typeof target.upstream === "string" ? target.upstream : `Service ${objectKey(target.upstream)}`;
  if (target.state === "idle") {
    return [ok(subject, "target-idle", `${upstream} does not exist: the target is not in use`)];
  }
  if (target.state === "waiting" || target.state === "withheld") {
    // If the published targets are unreadable, one finding reports it for all targets.
    if (!facts.install.targets.known) return [];
    if (target.state === "withheld") {
      const evidence = "its names are mapped once its ingress controller is known to expect a PROXY header";
      return [ok(subject, "target-withheld", `${evidence}; \`switchback status\` shows what it answered`)];
    }
    const evidence = "it needs a relay, but is not published to the proxies";
    return [broken(subject, "target-not-published", evidence, "check that a controller is the leader, and its log")];
  }
  const fronted = checkFront(subject, target, services, facts);
  // An unused target stays for older pods. Its upstream may be gone.
  const findings =
    target.state === "unused" ? fronted : [...checkUpstream(subject, target, services, facts), ...fronted];
  if (findings.length > 0) return findings;
  const front = target.fronted
    ? `; its front Service ${facts.namespace}/${frontName(target.name)} routes to the proxy`
    : "";
  if (target.state === "unused") return [ok(subject, "target-unused", `no name uses it any more${front}`)];
  return [ok(subject, "target-whole", `its upstream ${upstream} exists and has the ports${front}`)];
}

function checkUpstream(
  subject: string,
  { upstream, ports }: Target,
  services: Services,
  facts: ClusterFacts,
): Finding[] {
  if (typeof upstream === "string") return [];
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
    const evidence =
      `Service ${key} has no port ` + `${missing.map((entry) => entry.upstreamPort).join(", ")}; it has ${has}`;
    findings.push(broken(subject, "upstream-port-missing", evidence, cure));
  }
  return [...findings, ...checkEndpoints(subject, key, facts)];
}

function checkEndpoints(subject: string, key: string, { endpoints }: ClusterFacts): Finding[] {
  if (!endpoints.known) return [unknown(subject, endpoints.reason.code, endpoints.reason.text)];
  const found = endpoints.value.find((entry) => objectKey(entry) === key);
  if (found === undefined || found.ready > 0) return [];
  const evidence = `no endpoint of Service ${key} is ready`;
  return [broken(subject, "upstream-without-endpoints", evidence, "check the ingress controller's pods")];
}

function checkFront(subject: string, target: Target, services: Services, facts: ClusterFacts): Finding[] {
  if (!target.fronted) return [];
  const key = `${facts.namespace}/${frontName(target.name)}`;
  const front = services.get(key);
  const cure = "the controller restores it: check that one is the leader, and its log";
  if (front === undefined) {
    return [broken(subject, "front-missing", `there is no Service ${key}; pods hold its address`, cure)];
  }
  const findings: Finding[] = [];
  const wrong = target.ports.filter(({ port, listenPort }) => {
    return !front.ports.some((has) => has.port === port && has.targetPort === String(listenPort));
  });
  if (wrong.length > 0) {
    const list = wrong.map(({ port, listenPort }) => `${port} to ${listenPort}`).join(", ");
    const evidence = `Service ${key} does not route port ${list}, where the proxy listens`;
    findings.push(broken(subject, "front-port-wrong", evidence, cure));
  }
  const selector = facts.install.config.known ? (facts.install.config.value?.proxy.selector ?? {}) : {};
  if (Object.entries(selector).some(([label, value]) => front.selector[label] !== value)) {
    findings.push(broken(subject, "front-selector-wrong", `Service ${key} does not select the proxy's pods`, cure));
  }
  return [...findings, ...checkFrontAddress(subject, target, front, facts)];
}

/** The published addresses of a target must be those of its front Service. */
function checkFrontAddress(subject: string, target: Target, front: ServiceFacts, { install }: ClusterFacts): Finding[] {
  if (target.state === "unused") return [];
  if (!install.map.known) return [unknown(subject, install.map.reason.code, install.map.reason.text)];
  const published = install.map.value?.targets.find(({ name }) => name === target.name)?.clusterIPs;
  if (published === undefined || published.length === 0) {
    const evidence = "the published map has no address for this target: its names are added once the proxies listen";
    return [warning(subject, "front-not-published", evidence, "check the controller's log")];
  }
  const stray = published.filter((address) => !front.clusterIPs.includes(address));
  if (stray.length === 0) return [];
  const evidence =
    `names map to ${stray.join(", ")}, but Service ${objectKey(front)} has ` + `${front.clusterIPs.join(", ")}`;
  return [broken(subject, "front-address-changed", evidence, "restart the pods that hold the old address")];
}
