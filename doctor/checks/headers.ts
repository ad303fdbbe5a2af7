import { PROXY_PROTOCOL_KEY } from "../../hostmap/metadata-keys.ts";
import { type Balancer, findBalancers } from "../balancers.ts";
import { type ClusterFacts, objectKey, type ServicePort } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import {
  answered,
  dialOf,
  type Place,
  type ProxyProtocolSupport,
  proxyProtocolSupportOf,
} from "../probe/proxy-protocol-support.ts";
import type { ProbeResult } from "../probe/result.ts";
import { providerCures } from "../providers.ts";
import { acceptCure, trustCure } from "../software.ts";
import { entryFor } from "../targets.ts";

const { ok, broken, unknown } = findingsOf("headers");

/** Whether each ingress controller takes, demands or refuses a PROXY header, against what its target is configured with. */
export function checkHeaders(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  if (probe === undefined) {
    const evidence = "whether ingress controllers demand a PROXY header, and where names lead, was not asked";
    return [
      unknown(
        "probe",
        "not-probed",
        evidence,
        "ask with --probe: a pod that connects, looks names up and is removed again",
      ),
    ];
  }
  if (!probe.known) return [unknown("probe", probe.reason.code, probe.reason.text)];
  return findBalancers(facts).flatMap((balancer) => {
    return balancer.service.ports.flatMap((port) => judgePort({ balancer, port, result: probe.value, facts }) ?? []);
  });
}

interface Asked {
  readonly balancer: Balancer;
  readonly port: ServicePort;
  readonly result: ProbeResult;
  readonly facts: ClusterFacts;
}

interface Judged extends Asked {
  readonly subject: string;
  readonly stance: ProxyProtocolSupport;
  /** Whether the load balancer's own address answered the probe pod; undefined: it was not asked. */
  readonly straight: boolean | undefined;
  /** The same of the way through our proxy, whose addresses are what the ingress controller sees then. */
  readonly relayed: boolean | undefined;
  readonly seen: string;
}

function judgePort(asked: Asked): Finding | undefined {
  const { balancer, port, result } = asked;
  const place: Place = { service: objectKey(balancer.service), servicePort: port.port };
  const stance = proxyProtocolSupportOf(result, place);
  if (stance === undefined) return undefined;
  const [straight, front] = [dialOf(result, place, "balancer"), dialOf(result, place, "front")];
  const judged: Judged = {
    ...asked,
    subject: `Service ${place.service} port ${port.port}`,
    stance,
    straight: straight && answered(straight),
    relayed: front && answered(front),
    seen: `from the probe pod's address, ${stance.detail}${straight ? `; at its load balancer's address: ${straight.outcome.detail}` : ""}`,
  };
  if (stance.kind === "unreachable") {
    return broken(
      judged.subject,
      "backend-unreachable",
      judged.seen,
      "see the ingress controller's pods, and NetworkPolicies before them",
    );
  }
  const entry = entryFor(balancer.target, port.port);
  if (entry === undefined) return judgeUnmapped(judged);
  return entry.protocol === "none" ? judgeBare(judged) : judgeHeaded(judged, entry.protocol);
}

/** A port that no target covers: pods have only the way that they always had. */
function judgeUnmapped(judged: Judged): Finding {
  const { subject, stance, straight, seen, balancer, facts } = judged;
  if (straight === true) return ok(subject, "pods-reach-it", `pods reach it by its load balancer's address: ${seen}`);
  const ours = "or let Switchback map its names: add it to `config.targets` and opt pods in";
  const cures = [...providerCures(balancer.service, facts), ours];
  if (stance.kind === "demands") {
    return broken(subject, "pods-cut-off", `it demands a PROXY header, which pods do not send: ${seen}`, ...cures);
  }
  if (straight === false && (stance.kind === "accepts" || stance.kind === "refuses")) {
    const evidence = `pods do not reach its load balancer's address, though it would answer them: ${seen}`;
    return broken(
      subject,
      "no-way-to-balancer",
      evidence,
      "let Switchback map its names to it: a target with `protocol: none`",
    );
  }
  return unclear(judged);
}

function unclear({ subject, seen }: Judged): Finding {
  return unknown(
    subject,
    "stance-unclear",
    seen,
    "see the ingress controller's log for the probe's connections; ask again",
  );
}

function judgeBare(judged: Judged): Finding {
  const { subject, stance, seen } = judged;
  if (stance.kind === "unclear") return unclear(judged);
  if (stance.kind === "accepts" || stance.kind === "refuses") {
    return ok(subject, "header-not-needed", `as its target says, it needs no header: ${seen}`);
  }
  if (stance.kind === "demands") {
    const evidence = `its target says protocol none, but it demands a header: ${seen}`;
    return broken(subject, "header-demanded", evidence, protocolCure(stance.versions[0] ?? "v1"));
  }
  return broken(subject, "backend-mute", `it answers nothing: ${seen}`, "see the ingress controller's log");
}

function judgeHeaded(judged: Judged, protocol: "v1" | "v2"): Finding {
  const { subject, stance, seen, balancer, relayed } = judged;
  if (stance.versions.includes(protocol)) {
    const how = stance.kind === "demands" ? "demands" : "takes (but does not demand)";
    return ok(subject, "header-accepted", `it ${how} a header, and takes ${protocol} as its target says: ${seen}`);
  }
  if (relayed === true) {
    const evidence = `it takes ${protocol} from the proxies' addresses, though not from others: ${seen}`;
    return ok(subject, "header-accepted-from-proxies", evidence);
  }
  if (stance.kind === "unclear" || stance.silent.includes(protocol)) return unclear(judged);
  const [other] = stance.versions;
  if (other !== undefined) {
    const evidence = `its target says ${protocol}, but it takes ${other} only: ${seen}`;
    return broken(subject, "header-version-wrong", evidence, protocolCure(other));
  }
  if (stance.kind === "mute") {
    return broken(
      subject,
      "backend-mute",
      `it answers nothing, with a header or without: ${seen}`,
      trustCure(balancer.software),
    );
  }
  const evidence = `its target says ${protocol}, but it refuses a header: ${seen}`;
  const none = `or, if its load balancer adds no header, ${protocolCure("none")}`;
  return broken(subject, "header-refused", evidence, acceptCure(balancer.software), trustCure(balancer.software), none);
}

function protocolCure(protocol: "v1" | "v2" | "none"): string {
  return `set \`protocol: ${protocol}\` on this port of the target; of a found one, annotate the Service with \`${PROXY_PROTOCOL_KEY}: ${protocol}\``;
}
