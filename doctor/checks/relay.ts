import { frontName } from "../../snapshot/listeners.ts";
import { findBalancers } from "../balancers.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { dialOf, proxyProtocolSupportOf } from "../probe/proxy-protocol-support.ts";
import type { DialResult } from "../probe/result.ts";
import { type IngressSoftware, trustCure } from "../software.ts";
import { isInstalled } from "./install.ts";

const { ok, broken, unknown } = findingsOf("relay");

/**
 * Whether connections through the proxy come through. Two witnesses: the probe pod calls the front Services, so that the ingress
 * controller sees the proxies' addresses; and a proxy replica tells how its own last dials went.
 */
export function checkRelay(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  return [...judgeProbe(facts), ...judgeReadyz(facts)];
}

function judgeProbe(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  if (!probe?.known) return [];
  return findBalancers(facts).flatMap(({ service, target, software }) => {
    if (target === undefined) return [];
    return target.ports.flatMap((entry) => {
      const place = { service: objectKey(service), servicePort: entry.upstreamPort };
      const dial = dialOf(probe.value, place, "front");
      if (dial === undefined) return [];
      const subject = `front Service ${facts.namespace}/${frontName(target.name)} port ${entry.port}`;
      const stance = proxyProtocolSupportOf(probe.value, place);
      const direct = entry.protocol !== "none" && stance?.versions.includes(entry.protocol) === true;
      return [judgeDial(subject, dial, { direct, software })];
    });
  });
}

function judgeDial(
  subject: string,
  { outcome }: DialResult,
  { direct, software }: { readonly direct: boolean; readonly software: IngressSoftware | undefined },
): Finding {
  const seen = `from the proxies' addresses, through the proxy: ${outcome.detail}`;
  if (outcome.kind === "answered") return ok(subject, "relay-answers", seen);
  if (outcome.kind === "refused" || outcome.kind === "timeout" || outcome.kind === "unreachable") {
    const cure =
      "see the Deployment switchback-proxy, the front Service's ports and selector, and NetworkPolicies before the proxy";
    return broken(subject, "relay-unreachable", seen, cure);
  }
  // Slow, if it is no quicker without us.
  if (outcome.kind === "silent" && !direct)
    return unknown(subject, "relay-slow", seen, "ask again; see the ingress controller's log");
  const contrast = direct ? "; the same header from the probe pod's own address is answered" : "";
  const log = "see the proxy's log (`upstream cannot be reached`) and the ingress controller's";
  return broken(subject, "relay-refused", `${seen}${contrast}`, trustCure(software), log);
}

/** A line of proxy/readiness.ts: `[i] upstream web:443: failing (timeout: ...) since ...`. */
const UPSTREAM = /^\[i\] upstream (\S+): (ok|failing|unknown)(?: \((.*)\))? since /;

function judgeReadyz({ install }: ClusterFacts): Finding[] {
  const { proxyReadyz } = install;
  if (!proxyReadyz.known) return [unknown("proxy", proxyReadyz.reason.code, proxyReadyz.reason.text)];
  const lines = proxyReadyz.value.split("\n");
  const faults = lines
    .filter((line) => line.startsWith("[-] "))
    .map((line) => {
      return broken("proxy", "proxy-not-serving", `a replica says: ${line.slice(4)}`, "see the proxy's log");
    });
  const dials = lines.flatMap((line) => {
    const [, upstream = "", state, why = ""] = UPSTREAM.exec(line) ?? [];
    if (state !== "failing") return [];
    const cure =
      "see that the ingress controller's Service and pods are there, and NetworkPolicies between them and the proxy";
    return [broken(`upstream ${upstream}`, "dial-failing", `a proxy replica's last dial failed: ${why}`, cure)];
  });
  const findings = [...faults, ...dials];
  return findings.length > 0
    ? findings
    : [ok("proxy", "proxy-serving", "the replica that was asked listens, and no dial of it fails")];
}
