import { frontName } from "../../snapshot/listeners.ts";
import { type ClusterFacts, CONFIG_NAME, objectKey, type ServiceFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { type Target, targetsOf } from "../targets.ts";
import { isInstalled } from "./install.ts";

const { ok, warning, broken, unknown } = findingsOf("targets");

/** Whether each target has an ingress controller behind it and, where it is relayed, a front Service before it. */
export function checkTargets(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  const { config, targets: published } = facts.install;
  const unread = [config, published].flatMap((fact) =>
    fact.known ? [] : [unknown("targets", fact.reason.code, fact.reason.text)],
  );
  if (config.known && config.value === undefined) {
    const evidence = `there is no ConfigMap ${CONFIG_NAME} in ${facts.namespace}: pods that are made anew do not start`;
    unread.push(broken("targets", "config-missing", evidence, "apply the chart again"));
  }
  const targets = targetsOf(facts);
  if (!facts.services.known) {
    const { code, text } = facts.services.reason;
    return [...unread, ...targets.map(({ name }) => unknown(`target ${name}`, code, text))];
  }
  const services = new Map(facts.services.value.map((service) => [objectKey(service), service]));
  return [...unread, ...targets.flatMap((target) => judge(target, services, facts))];
}

type Services = ReadonlyMap<string, ServiceFacts>;

function judge(target: Target, services: Services, facts: ClusterFacts): Finding[] {
  const subject = `target ${target.name}`;
  const upstream = typeof target.upstream === "string" ? target.upstream : `Service ${objectKey(target.upstream)}`;
  if (target.state === "idle") {
    return [ok(subject, "target-idle", `the ${upstream} is not there: the target is not in use`)];
  }
  if (target.state === "waiting") {
    // What the proxies were told could not be read: that is said once, for all.
    if (!facts.install.targets.known) return [];
    const evidence = "it wants a relay, and the proxies were not told of it";
    return [broken(subject, "target-not-published", evidence, "see that a controller leads, and its log")];
  }
  const fronted = judgeFront(subject, target, services, facts);
  // Kept for pods of earlier: what was behind it may well be gone.
  const found = target.state === "unused" ? fronted : [...judgeUpstream(subject, target, services, facts), ...fronted];
  if (found.length > 0) return found;
  const front = target.fronted
    ? `; its front Service ${facts.namespace}/${frontName(target.name)} leads to the proxy`
    : "";
  if (target.state === "unused") return [ok(subject, "target-unused", `no name leads to it any more${front}`)];
  return [ok(subject, "target-whole", `its upstream ${upstream} is there with its ports${front}`)];
}

function judgeUpstream(
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
  const lacking = ports.filter(({ upstreamPort }) => !service.ports.some(({ port }) => port === upstreamPort));
  const findings: Finding[] = [];
  if (lacking.length > 0) {
    const has = service.ports.map(({ port }) => port).join(", ") || "no TCP port";
    const cure = "list the ports of the Service under `ports` of this target (`upstreamPort` where they differ)";
    const evidence = `the Service ${key} has no port ${lacking.map((entry) => entry.upstreamPort).join(", ")}; it has ${has}`;
    findings.push(broken(subject, "upstream-port-missing", evidence, cure));
  }
  return [...findings, ...judgeEndpoints(subject, key, facts)];
}

function judgeEndpoints(subject: string, key: string, { endpoints }: ClusterFacts): Finding[] {
  if (!endpoints.known) return [unknown(subject, endpoints.reason.code, endpoints.reason.text)];
  const found = endpoints.value.find((entry) => objectKey(entry) === key);
  if (found === undefined || found.ready > 0) return [];
  const evidence = `no endpoint of the Service ${key} is ready`;
  return [broken(subject, "upstream-without-endpoints", evidence, "see the ingress controller's pods")];
}

function judgeFront(subject: string, target: Target, services: Services, facts: ClusterFacts): Finding[] {
  if (!target.fronted) return [];
  const key = `${facts.namespace}/${frontName(target.name)}`;
  const front = services.get(key);
  const cure = "the leading controller makes it as it should be: see that one runs, and its log";
  if (front === undefined) {
    return [broken(subject, "front-missing", `there is no Service ${key}, which pods hold the address of`, cure)];
  }
  const findings: Finding[] = [];
  const wrong = target.ports.filter(({ port, listenPort }) => {
    return !front.ports.some((has) => has.port === port && has.targetPort === String(listenPort));
  });
  if (wrong.length > 0) {
    const list = wrong.map(({ port, listenPort }) => `${port} to ${listenPort}`).join(", ");
    const evidence = `the Service ${key} does not lead port ${list}, where the proxy listens`;
    findings.push(broken(subject, "front-port-wrong", evidence, cure));
  }
  const selector = facts.install.config.known ? (facts.install.config.value?.proxy.selector ?? {}) : {};
  if (Object.entries(selector).some(([label, value]) => front.selector[label] !== value)) {
    findings.push(broken(subject, "front-selector-wrong", `the Service ${key} does not select the proxy's pods`, cure));
  }
  return [...findings, ...judgeAddress(subject, target, front, facts)];
}

/** Names lead to the addresses in the index; they have to be the front's. */
function judgeAddress(subject: string, target: Target, front: ServiceFacts, { install }: ClusterFacts): Finding[] {
  if (target.state === "unused") return [];
  if (!install.map.known) return [unknown(subject, install.map.reason.code, install.map.reason.text)];
  const published = install.map.value?.index.targets.find(({ name }) => name === target.name)?.clusterIPs;
  if (published === undefined || published.length === 0) {
    const evidence = "the published map has no address of this target: its names wait until the proxies listen";
    return [warning(subject, "front-not-published", evidence, "see the controller's log")];
  }
  const stray = published.filter((address) => !front.clusterIPs.includes(address));
  if (stray.length === 0) return [];
  const evidence = `names lead to ${stray.join(", ")}, the Service ${objectKey(front)} has ${front.clusterIPs.join(", ")}`;
  return [broken(subject, "front-address-changed", evidence, "restart the pods that hold the old address")];
}
