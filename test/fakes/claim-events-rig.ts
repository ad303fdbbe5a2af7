import type { TestContext } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { ClaimEvents } from "#controller/claim-events/reporter.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder } from "#lib/kube/events.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { mockSteadyTime } from "./stopped-time.ts";

const RULES = {
  allowDomains: [],
  denyDomains: ["denied.example.com"],
  namespaces: [],
  denyNamespaces: [],
  maxNamesPerNamespace: 100_000,
};

interface SentEvent {
  readonly name: string | undefined;
  readonly namespace: string;
  readonly type: string;
  readonly reason: string;
  readonly note: string;
  readonly regarding: {
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly apiVersion: string;
  };
}

export const NO_TARGET: Reason = { code: "no-target", text: "no target serves it" };

/**
 * A plan, a leader that writes Events about the plan's decisions, and an API server that keeps Events. Their clock
 * moves only in `pass`.
 */
export function claimEventsRig(t: TestContext) {
  let now = 1_000_000;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  mockSteadyTime(t, () => now);
  const plan = new Plan(createClaimPolicy(RULES, "cluster.local"), RULES.maxNamesPerNamespace);
  const sent: SentEvent[] = [];
  const kept = new Set<string>();
  const client = {
    create: async (_path: string, event: SentEvent & { metadata: { name?: string; namespace: string } }) => {
      const { name, namespace } = event.metadata;
      if (name !== undefined && kept.has(name)) throw new KubeStatusError("POST", 409, { message: "exists" });
      if (name !== undefined) kept.add(name);
      const { type, reason, note, regarding } = event;
      sent.push({ name, namespace, type, reason, note, regarding });
    },
  } as unknown as KubeClient;
  const events = createEventRecorder({ client, component: "c", instance: "i", namespace: "own" });
  const claimEvents = new ClaimEvents({ plan, events, log: silentLogger });
  t.after(() => claimEvents.stop());

  /** Waits for the end of a long loop. Such a loop yields with an immediate after each slice. */
  const settle = async () => {
    do await turn();
    while (process.getActiveResourcesInfo().includes("Immediate"));
  };

  /** Does what a round of the loop does. */
  const run = () => {
    plan.takeChanges();
    claimEvents.changed(plan.takeTouched());
  };
  return {
    sent,
    /** Sets the names of an object `namespace/name`. Each has a target, or the reason why it has no target. */
    set(object: string, names: Readonly<Record<string, string | Reason>>, warning?: Reason) {
      const [namespace = "", name = ""] = object.split("/");
      const from = { apiVersion: "networking.k8s.io/v1", kind: "Ingress", namespace, name, uid: `uid of ${object}` };
      const claims = Object.entries(names).map(
        ([hostname, target]): Claim => ({
          hostname,
          target,
          from,
          created: "2001-01-01T00:00:00Z",
          ...(warning && { warning }),
        }),
      );
      plan.set(object, claims);
    },
    run,
    /** Lets seconds pass. Long loops can end in each second. */
    async pass(seconds: number, each: (second: number) => void = () => {}) {
      for (let second = 0; second < seconds; second++) {
        each(second);
        await settle();
        for (let part = 0; part < 5; part++) {
          now += 200;
          t.mock.timers.tick(200);
          await settle();
        }
      }
    },
  };
}
