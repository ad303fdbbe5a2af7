import type { IngressSoftware } from "#controller/targets/known-software.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { trustCure } from "../header-cures.ts";
import { isInstalled } from "../is-installed.ts";
import { findLoadBalancers } from "../load-balancers.ts";
import { dialOf, proxyProtocolSupportOf } from "../probe/proxy-protocol-support.ts";
import type { DialResult } from "../probe/result.ts";

const { ok, broken, unknown } = findingsOf("relay");

/**
 * Whether connections through the proxy succeed. The probe pod calls the front Services, so the
 * ingress controller sees the proxies' addresses. A proxy replica's /readyz reports the results of
 * its last dials.
 */
export function checkRelay(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  return [...checkProbe(facts), ...checkReadyz(facts)];
}

function checkProbe(facts: ClusterFacts): Finding[] {
  const { probe } = facts;
  if (!probe?.known) return [];
  return findLoadBalancers(facts).flatMap(({ service, target, software }) => {
    if (target === undefined) return [];
    return target.ports.flatMap((entry) => {
      const portRef = { service: objectKey(service), servicePort: entry.upstreamPort };
      const dial = dialOf(probe.value, portRef, "front");
      if (dial === undefined) return [];
      const subject = `front Service ${facts.namespace}/${frontName(target.name)} port ${entry.port}`;
      const support = proxyProtocolSupportOf(probe.value, portRef);
      const direct = entry.protocol !== "none" && support?.versions.includes(entry.protocol) === true;
      return [checkDial(subject, dial, { direct, software })];
    });
  });
}

function checkDial(
  subject: string,
  { outcome }: DialResult,
  { direct, software }: { readonly direct: boolean; readonly software: IngressSoftware | undefined },
): Finding {
  const evidence = `from the proxies' addresses, through the proxy: ${outcome.detail}`;
  if (outcome.kind === "answered") return ok(subject, "relay-answers", evidence);
  if (outcome.kind === "refused" || outcome.kind === "timeout" || outcome.kind === "unreachable") {
    const cure = "check the front Service's pods, ports and selector, and NetworkPolicies that select the proxy";
    return broken(subject, "relay-unreachable", evidence, cure);
  }
  // The backend may be slow, unless it answered the same header without the proxy.
  if (outcome.kind === "silent" && !direct)
    return unknown(subject, "relay-slow", evidence, "run again; check the ingress controller's log");
  const contrast = direct ? "; the same header from the probe pod's own address is answered" : "";
  const log = "check the logs of the proxy (`upstream cannot be reached`) and of the ingress controller";
  return broken(subject, "relay-refused", `${evidence}${contrast}`, trustCure(software), log);
}

/** A line of proxy/readiness.ts: `[i] upstream web:443: failing (timeout: ...) since ...`. */
const UPSTREAM = /^\[i\] upstream (\S+): (ok|failing|unknown)(?: \((.*)\))? since /;

function checkReadyz({ install }: ClusterFacts): Finding[] {
  const { proxyReadyz } = install;
  if (!proxyReadyz.known) return [unknown("proxy", proxyReadyz.reason.code, proxyReadyz.reason.text)];
  const lines = proxyReadyz.value.split("\n");
  const faults = lines
    .filter((line) => line.startsWith("[-] "))
    .map((line) => {
      return broken("proxy", "proxy-not-serving", `a replica reports: ${line.slice(4)}`, "check the proxy's log");
    });
  const dials = lines.flatMap((line) => {
    const [, upstream = "", state, why = ""] = UPSTREAM.exec(line) ?? [];
    if (state !== "failing") return [];
    const cure = "check the ingress controller's Service and pods, and NetworkPolicies between them and the proxy";
    return [broken(`upstream ${upstream}`, "dial-failing", `a proxy replica's last dial failed: ${why}`, cure)];
  });
  const findings = [...faults, ...dials];
  return findings.length > 0
    ? findings
    : [ok("proxy", "proxy-serving", "the replica that answered is listening, and none of its dials fail")];
}
