import { emptyPublisherState } from "#extras/publishers/publisher-state.ts";
import type { PublisherFacts } from "../health.ts";
import { createPublisherMetrics } from "../metrics.ts";

/** The facts of a publisher. None runs in these tests, because it needs a cluster's DNS. */
const PUBLISHED: PublisherFacts = {
  state: {
    ...emptyPublisherState("coredns", "the Corefile"),
    names: 3,
    leftOut: 1,
    behindSince: 0,
    since: 0,
    revision: "r1",
    takenBack: [{ at: 0, by: "helm" }],
  },
  failure: { code: "publisher-failed", text: "" },
  mapProblem: undefined,
};

export const COMPONENT = "publisher";

export function metricsText(): string {
  return createPublisherMetrics("coredns", () => PUBLISHED, Date.now).registry.metrics();
}
