import type { TargetConfig } from "../../config/schema.ts";
import { frontName, isRelayed, listenersOf } from "../../targets/listeners.ts";
import { targetsOf } from "../balancers.ts";
import { CONFIG_NAME, type Facts, keyOf, type ServiceFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "./install.ts";

const { ok, warning, broken, unknown } = findingsOf("targets");

/** Whether each target has an ingress controller behind it and, where it is relayed, a front Service before it. */
export function checkTargets(facts: Facts): Finding[] {
  const { config } = facts.install;
  if (!config.known) return [unknown("targets", config.reason.code, config.reason.text)];
  if (config.value === undefined && isInstalled(facts) !== false) {
    const evidence = `there is no ConfigMap ${CONFIG_NAME} in ${facts.namespace}: pods that are made anew do not start`;
    return [broken("targets", "config-missing", evidence, "apply the chart again")];
  }
  const targets = targetsOf(facts);
  if (!facts.services.known) {
    const { code, text } = facts.services.reason;
    return targets.map(({ name }) => unknown(`target ${name}`, code, text));
  }
  const services = new Map(facts.services.value.map((service) => [keyOf(service), service]));
  return targets.flatMap((target) => {
    const subject = `target ${target.name}`;
    const found = [...judgeUpstream(subject, target, services, facts), ...judgeFront(subject, target, services, facts)];
    return found.length > 0 ? found : [ok(subject, "target-whole", wholeText(target, facts))];
  });
}

type Services = ReadonlyMap<string, ServiceFacts>;

function wholeText(target: TargetConfig, { namespace }: Facts): string {
  const upstream = "service" in target.upstream ? `Service ${keyOf(target.upstream.service)}` : target.upstream.host;
  const front = isRelayed(target)
    ? `; its front Service ${namespace}/${frontName(target.name)} leads to the proxy`
    : "";
  return `its upstream ${upstream} is there with its ports${front}`;
}

function judgeUpstream(subject: string, target: TargetConfig, services: Services, facts: Facts): Finding[] {
  if (!("service" in target.upstream)) return [];
  const key = keyOf(target.upstream.service);
  const service = services.get(key);
  if (service === undefined) {
    const cure = "set `upstream.service` of this target to the Service of the ingress controller";
    return [broken(subject, "upstream-missing", `there is no Service ${key}`, cure)];
  }
  const wanted = target.ports.map(({ port, upstreamPort }) => upstreamPort ?? port);
  const lacking = wanted.filter((port) => !service.ports.some((has) => has.port === port));
  const findings: Finding[] = [];
  if (lacking.length > 0) {
    const has = service.ports.map(({ port }) => port).join(", ") || "no TCP port";
    const cure = "list the ports of the Service under `ports` of this target (`upstreamPort` where they differ)";
    const evidence = `the Service ${key} has no port ${lacking.join(", ")}; it has ${has}`;
    findings.push(broken(subject, "upstream-port-missing", evidence, cure));
  }
  return [...findings, ...judgeEndpoints(subject, key, facts)];
}

function judgeEndpoints(subject: string, key: string, { install }: Facts): Finding[] {
  if (!install.endpoints.known) return [unknown(subject, install.endpoints.reason.code, install.endpoints.reason.text)];
  const endpoints = install.endpoints.value.find((entry) => keyOf(entry) === key);
  if (endpoints === undefined || endpoints.ready > 0) return [];
  const cure = "see the ingress controller's pods";
  return [broken(subject, "upstream-without-endpoints", `no endpoint of the Service ${key} is ready`, cure)];
}

function judgeFront(subject: string, target: TargetConfig, services: Services, facts: Facts): Finding[] {
  if (!isRelayed(target) || target.clusterIPs.length > 0) return [];
  const key = `${facts.namespace}/${frontName(target.name)}`;
  const front = services.get(key);
  const cure = "the leading controller makes it anew: see that one runs, and its log";
  if (front === undefined)
    return [broken(subject, "front-missing", `there is no Service ${key}, which pods hold the address of`, cure)];
  const { config } = facts.install;
  const listeners = listenersOf(targetsOf(facts)).filter((listener) => listener.target === target.name);
  const findings: Finding[] = [];
  const wrong = listeners.filter(({ port, listenPort }) => {
    return !front.ports.some((has) => has.port === port && has.targetPort === String(listenPort));
  });
  if (wrong.length > 0) {
    const list = wrong.map(({ port, listenPort }) => `${port} to ${listenPort}`).join(", ");
    findings.push(
      broken(
        subject,
        "front-port-wrong",
        `the Service ${key} does not lead port ${list}, where the proxy listens`,
        cure,
      ),
    );
  }
  const selector = config.known ? (config.value?.proxy.selector ?? {}) : {};
  if (Object.entries(selector).some(([label, value]) => front.selector[label] !== value)) {
    findings.push(broken(subject, "front-selector-wrong", `the Service ${key} does not select the proxy's pods`, cure));
  }
  return [...findings, ...judgeAddress(subject, target, front, facts)];
}

/** Names lead to the addresses in the index; they have to be the front's. */
function judgeAddress(subject: string, target: TargetConfig, front: ServiceFacts, { install }: Facts): Finding[] {
  if (!install.map.known) return [unknown(subject, install.map.reason.code, install.map.reason.text)];
  const published = install.map.value?.index.targets.find(({ name }) => name === target.name)?.clusterIPs;
  if (published === undefined || published.length === 0) {
    const evidence = "the published map has no address of this target: its names wait";
    return [warning(subject, "front-not-published", evidence, "see the controller's log")];
  }
  const stray = published.filter((address) => !front.clusterIPs.includes(address));
  if (stray.length === 0) return [];
  const evidence = `names lead to ${stray.join(", ")}, the Service ${keyOf(front)} has ${front.clusterIPs.join(", ")}`;
  return [broken(subject, "front-address-changed", evidence, "restart the pods that hold the old address")];
}
