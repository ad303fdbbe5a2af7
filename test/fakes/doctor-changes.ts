import assert from "node:assert/strict";
import { examine } from "#doctor/checks.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts, ServiceFacts } from "#doctor/facts.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";
import { CONFIG, entry, FRONT, HEALTHY, NGINX, probed, RELAYED, reachable, type Ways } from "./doctor-facts.ts";

// Changes to the facts of a healthy installation. Use them as `{ ...HEALTHY, ...change }`.

const [TARGET] = CONFIG.targets;
assert.ok(TARGET);

/** HEALTHY with only these Services. */
export const services = (...all: ServiceFacts[]): Partial<ClusterFacts> => ({ services: known(all) });
export const nginx = (change: Partial<ServiceFacts>): Partial<ClusterFacts> => services({ ...NGINX, ...change }, FRONT);
export const front = (change: Partial<ServiceFacts>): Partial<ClusterFacts> => services(NGINX, { ...FRONT, ...change });
export const install = (change: Partial<ClusterFacts["install"]>): Partial<ClusterFacts> => ({
  install: { ...HEALTHY.install, ...change },
});
export const admission = (change: Partial<ClusterFacts["admission"]>): Partial<ClusterFacts> => {
  return { admission: { ...HEALTHY.admission, ...change } };
};
/** Replaces the webhook entries for pods. The entry that is not about pods stays healthy. */
export const entries = (...all: Parameters<typeof entry>[]): Partial<ClusterFacts> => {
  return admission({ configuration: known([...all.map((args) => entry(...args)), reachable()]) });
};
export const relayed = (change: Partial<PublishedTarget>): Partial<ClusterFacts> => {
  return install({ targets: known([{ ...RELAYED, ...change }]) });
};
/** The target has protocol `none` on each port, so that no proxy relays to it. */
export const direct = (): Partial<ClusterFacts> => {
  const ports = [80, 443].map((port) => ({ port, protocol: "none" as const }));
  const config = { ...CONFIG, targets: [{ ...TARGET, classes: ["nginx"], ports }] };
  return install({ config: known(config), targets: known([]) });
};
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
export const pod = (change: object): Partial<ClusterFacts> => {
  assert.ok(HEALTHY.pods.known);
  return { pods: known(HEALTHY.pods.value.map((one) => ({ ...one, ...change }))) };
};

export const namespaces = (...all: [name: string, inject: string | undefined][]): Partial<ClusterFacts> => ({
  namespaces: known(new Map(all.map(([name, inject]) => [name, { inject, onChange: undefined }]))),
});
export const MISREAD = { kind: "misread", detail: "HTTP 400" } as const;
export const ANSWERED = { kind: "answered", detail: "HTTP 404" } as const;
export const REFUSED = { kind: "refused", detail: "ECONNREFUSED" } as const;
export const TIMEOUT = { kind: "timeout", detail: "no connection" } as const;

/** All findings of one check, one line each: `status code | subject | evidence | cure | ...`. */
export function rowsOf(check: string, facts: ClusterFacts): string[] {
  return examine(facts)
    .filter((finding) => finding.check === check)
    .map(({ status, code, subject, evidence, cures }) =>
      [`${status} ${code}`, subject, evidence, ...cures].join(" | "),
    );
}
