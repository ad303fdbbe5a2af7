import assert from "node:assert/strict";
import { examine } from "#doctor/checks.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts, ServiceFacts } from "#doctor/facts.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { entry, HEALTHY, NGINX, probed, RELAYED, type Ways } from "./doctor-facts.ts";

// Changes to the facts of a healthy installation. Use them as `{ ...HEALTHY, ...change }`.

/** HEALTHY with only these Services. */
export const services = (...all: ServiceFacts[]): Partial<ClusterFacts> => ({ services: known(all) });
export const nginx = (change: Partial<ServiceFacts>): Partial<ClusterFacts> => services({ ...NGINX, ...change });
export const install = (change: Partial<ClusterFacts["install"]>): Partial<ClusterFacts> => ({
  install: { ...HEALTHY.install, ...change },
});
export const admission = (change: Partial<ClusterFacts["admission"]>): Partial<ClusterFacts> => {
  return { admission: { ...HEALTHY.admission, ...change } };
};
/** Replaces the webhook entries. */
export const entries = (...all: Parameters<typeof entry>[]): Partial<ClusterFacts> => {
  return admission({ configuration: known(all.map((args) => entry(...args))) });
};
export const relayed = (change: Partial<PublishedTarget>): Partial<ClusterFacts> => {
  return install({ targets: known([{ ...RELAYED, ...change }]) });
};
/** No proxy relays to the target: its names lead to its Service's ClusterIP, which is the upstream in the document. */
export const direct = (): Partial<ClusterFacts> =>
  relayed({ ports: [], clusterIPs: NGINX.clusterIPs, upstream: NGINX.clusterIPs.join() });
/** Switchback is installed, and no name of the Service is mapped. */
export const unmapped = (): Partial<ClusterFacts> => install({ targets: known([]) });
export const probe = (ways: Ways): Partial<ClusterFacts> => ({ probe: known(probed(ways)) });
export const deployments = (name: string, ready: number, desired = 2): Partial<ClusterFacts> => {
  const all = HEALTHY.install.deployments.known ? HEALTHY.install.deployments.value : [];
  return install({ deployments: known(all.map((one) => (one.name === name ? { ...one, ready, desired } : one))) });
};
export const status = (change: object): Partial<ClusterFacts> => {
  const { status: fact } = HEALTHY.install;
  assert.ok(fact.known);
  return install({ status: known({ ...fact.value, ...change }) });
};
export const workload = (change: object) => {
  const base = { namespace: "shop", kind: "Deployment", name: "web", stale: 1, standing: "stuck" };
  return { ...base, code: "restart-not-permitted", text: "t", ...change };
};
export const pods = (labels: Readonly<Record<string, string>>): Partial<ClusterFacts> => ({
  pods: known([{ namespace: "shop", name: "web", labels, annotations: {} }]),
});
export const namespaces = (...all: [name: string, inject: string | undefined][]): Partial<ClusterFacts> => ({
  namespaces: known(new Map(all.map(([name, inject]) => [name, { inject, onChange: undefined }]))),
});
export const MISREAD = { kind: "misread", detail: "HTTP 400" } as const;
export const ANSWERED = { kind: "answered", detail: "HTTP 404" } as const;
export const REFUSED = { kind: "refused", detail: "ECONNREFUSED" } as const;
export const TIMEOUT = { kind: "timeout", detail: "no connection" } as const;

/** `status code` of each finding of one check. */
export function codesOf(check: string, change: Partial<ClusterFacts>): string[] {
  return examine({ ...HEALTHY, ...change })
    .filter((finding) => finding.check === check)
    .map(({ status, code }) => `${status} ${code}`);
}

/** `status code | subject` of each finding of one check. */
export function subjectsOf(check: string, change: Partial<ClusterFacts>): string[] {
  return examine({ ...HEALTHY, ...change })
    .filter((finding) => finding.check === check)
    .map(({ status, code, subject }) => `${status} ${code} | ${subject}`);
}
