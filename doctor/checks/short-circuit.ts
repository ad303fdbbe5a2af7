import { type Balancer, findBalancers } from "../balancers.ts";
import { type BalancerEntry, type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { providerCures } from "../providers.ts";

const { ok, warning, unknown } = findingsOf("short-circuit");

/**
 * Whether pods that call a load balancer's address are led past it: kube-proxy takes an IP in the Service's status for its own,
 * unless it stands there with `ipMode: Proxy` (KEP-1860); a host name means nothing to it.
 */
export function checkShortCircuit(facts: ClusterFacts): Finding[] {
  if (!facts.services.known) return [unknown("load balancers", facts.services.reason.code, facts.services.reason.text)];
  const unread = [facts.ingresses, facts.gateways].flatMap((list) =>
    list.known ? [] : [unknown("load balancers", list.reason.code, `${list.reason.text}: some may not be found`)],
  );
  const balancers = findBalancers(facts);
  if (balancers.length > 0) return [...unread, ...balancers.map((balancer) => judge(balancer, facts))];
  const evidence =
    "no Service of type LoadBalancer belongs to an Ingress, a Gateway or a target, or serves port 80 or 443";
  return [...unread, ok("load balancers", "no-load-balancer", evidence)];
}

/** The addresses of a Service that kube-proxy leads past its load balancer. */
export function shortCircuited({ service }: Balancer): string[] {
  return service.entries.filter(isTaken).flatMap(({ ip }) => ip ?? []);
}

function isTaken({ ip, ipMode }: BalancerEntry): boolean {
  return ip !== undefined && ipMode !== "Proxy";
}

function judge(balancer: Balancer, facts: ClusterFacts): Finding {
  const { service, target, foundBy } = balancer;
  const subject = `Service ${objectKey(service)}`;
  const found = `(found because ${foundBy})`;
  const taken = shortCircuited(balancer);
  if (service.type !== "LoadBalancer") {
    return ok(
      subject,
      "not-a-load-balancer",
      `it is of type ${service.type}: kube-proxy knows no load balancer of it ${found}`,
    );
  }
  if (service.entries.length === 0) {
    const cure = "see the Service's Events: its provider has not assigned an address yet, or there is no provider";
    return warning(subject, "address-pending", `its status has no address ${found}`, cure);
  }
  if (taken.length > 0) {
    const evidence = `${taken.join(", ")} in its status without ipMode Proxy: kube-proxy leads pods past the load balancer ${found}`;
    if (target !== undefined) {
      return ok(
        subject,
        "short-circuit-cured",
        `${evidence}; opted-in pods are led through the target ${target.name} instead`,
      );
    }
    const ours = "or let Switchback map its names: add it to `config.targets`";
    return warning(subject, "short-circuited", evidence, ...providerCures(service, facts), ours);
  }
  const modes = service.entries.map(({ ip, hostname }) => ip ?? hostname ?? "").join(", ");
  if (service.entries.some(({ ip }) => ip !== undefined)) {
    return ok(
      subject,
      "ip-mode-proxy",
      `${modes} in its status with ipMode Proxy: nothing is short-circuited ${found}`,
    );
  }
  return ok(subject, "hostname-only", `its status has no IP but ${modes}: nothing is short-circuited ${found}`);
}
