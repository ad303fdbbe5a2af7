import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import {
  filteredBy,
  findLoadBalancers,
  isProxied,
  type LoadBalancer,
  reachedByPods,
  shortCircuited,
} from "../load-balancers.ts";
import { proxyDeployment } from "../proxy-deployment.ts";
import type { Target } from "../targets.ts";
import { isMappedAlways, waysOut } from "../ways-out.ts";

const { ok, warning, broken, unknown } = findingsOf("short-circuit");

/**
 * Whether pods bypass a load balancer when they call its address. kube-proxy handles an IP in the
 * Service's status itself, unless the entry has `ipMode: Proxy` (KEP-1860), or the Service has no ClusterIP of its
 * family. It ignores hostnames.
 */
export function checkShortCircuit(facts: ClusterFacts): Finding[] {
  if (!facts.services.known) return [unknown("load balancers", facts.services.reason.code, facts.services.reason.text)];
  const unread = [facts.ingresses, facts.gateways].flatMap((list) =>
    list.known
      ? []
      : [unknown("load balancers", list.reason.code, `${list.reason.text}: some load balancers may be missed`)],
  );
  const loadBalancers = findLoadBalancers(facts);
  if (loadBalancers.length > 0)
    return [...unread, ...loadBalancers.map((loadBalancer) => checkLoadBalancer(loadBalancer, facts))];
  const evidence =
    "no Service of type LoadBalancer that kube-proxy handles belongs to an Ingress, a Gateway or a target, " +
    "or serves port 80 or 443";
  return [...unread, ok("load balancers", "no-load-balancer", evidence)];
}

function checkLoadBalancer(loadBalancer: LoadBalancer, facts: ClusterFacts): Finding {
  const { service, foundBy } = loadBalancer;
  const subject = `Service ${objectKey(service)}`;
  const found = `(selected because ${foundBy})`;
  const addresses = shortCircuited(loadBalancer);
  if (service.type !== "LoadBalancer" && service.entries.length === 0) {
    return ok(
      subject,
      "not-a-load-balancer",
      `it is of type ${service.type}: kube-proxy has no load balancer address for it ${found}`,
    );
  }
  if (service.entries.length === 0) {
    const cure = "check the Service's Events: its provider has not assigned an address yet, or there is no provider";
    return warning(subject, "address-pending", `its status has no address ${found}`, cure);
  }
  if (addresses.length > 0) return checkBypassed(loadBalancer, facts);
  const always = isMappedAlways(service, facts) ? `; its names are mapped nevertheless (${MAP_KEY})` : "";
  if (service.entries.some(({ ip }) => ip !== undefined) && !isProxied(loadBalancer)) {
    return ok(
      subject,
      "ip-family-not-served",
      `${loadBalancer.addresses.join(", ")} in its status, without a ClusterIP of that family: ` +
        `nothing is short-circuited ${found}${always}`,
    );
  }
  if (isProxied(loadBalancer)) {
    return ok(
      subject,
      "ip-mode-proxy",
      `${loadBalancer.addresses.join(", ")} in its status with ipMode Proxy: ` +
        `nothing is short-circuited ${found}${always}`,
    );
  }
  const evidence =
    `its status has ${loadBalancer.addresses.join(", ")} and no IP: ` + `nothing is short-circuited ${found}${always}`;
  return ok(subject, "hostname-only", evidence);
}

/** Pods bypass the load balancer. That does no harm if a target covers its names, or if pods get an answer. */
function checkBypassed(loadBalancer: LoadBalancer, facts: ClusterFacts): Finding {
  const { service, target, foundBy } = loadBalancer;
  const subject = `Service ${objectKey(service)}`;
  const isExternal = service.entries.every(({ external }) => external);
  const field = isExternal ? "externalIPs" : "status without ipMode Proxy";
  const evidence =
    `${shortCircuited(loadBalancer).join(", ")} in its ${field}: ` +
    `kube-proxy makes pods bypass the load balancer (selected because ${foundBy})`;
  if (target !== undefined)
    return checkCure(subject, `${evidence}; opted-in pods use target ${target.name} instead`, target, facts);
  if (reachedByPods(loadBalancer, facts) === true)
    return ok(subject, "short-circuited", `${evidence}; the probe got an answer there`);
  const ranges = filteredBy(loadBalancer);
  const filter =
    ranges.length === 0
      ? ""
      : `; its loadBalancerSourceRanges admit ${ranges.join(", ")}: ` +
        "kube-proxy drops connections from other addresses, with or without a header";
  return warning(subject, "short-circuited", `${evidence}${filter}`, ...waysOut(loadBalancer, facts));
}

/** A target is a cure if a proxy relays to it, or if it needs no proxy. */
function checkCure(subject: string, evidence: string, { state }: Target, facts: ClusterFacts): Finding {
  const { deployments } = facts.install;
  if (state === "direct") return ok(subject, "short-circuit-cured", evidence);
  if (!deployments.known) return unknown(subject, deployments.reason.code, `${evidence}; ${deployments.reason.text}`);
  if ((proxyDeployment(facts)?.ready ?? 0) > 0) return ok(subject, "short-circuit-cured", evidence);
  const reason = `${evidence}, but no proxy pod is ready`;
  return broken(
    subject,
    "short-circuit-uncured",
    reason,
    "check the proxies: the finding about their Deployment says how",
  );
}
