import { setImmediate as turn } from "node:timers/promises";
import { ClaimEvents } from "#controller/claim-events/reporter.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { createEventRecorder } from "#lib/kube/events.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import { FakeClock, LineLog } from "./clock.ts";

const RULES = {
  allowDomains: [],
  denyDomains: ["denied.example.com"],
  namespaces: [],
  denyNamespaces: [],
  maxNamesPerNamespace: 100_000,
};

interface SentEvent {
  readonly at: number;
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
/** A time long before the rig's clock begins. */
export const OLD = "2001-01-01T00:00:00Z";

/**
 * A plan, a leader that writes Events about the plan's decisions, and an API server that keeps Events. Their clock
 * moves only in `pass`.
 */
export function claimEventsRig() {
  const clock = new FakeClock();
  const plan = new Plan(createClaimPolicy(RULES, "cluster.local"), RULES.maxNamesPerNamespace);
  const sent: SentEvent[] = [];
  const log = new LineLog();
  const kept = new Set<string>();
  const api = { lookups: 0, fails: false };
  const client = {
    get: async (path: string, { fieldSelector }: { fieldSelector: string }) => {
      api.lookups++;
      if (api.fails) throw new KubeStatusError("GET", 503, { message: "away" });
      const name = fieldSelector.replace("metadata.name=", "");
      const key = `${path.split("/")[5]}/${name}`;
      return { items: [...plan.decisionsOf(key).take(1)].map(() => ({ metadata: { uid: `uid of ${key}` } })) };
    },
    create: async (_path: string, event: SentEvent & { metadata: { name?: string; namespace: string } }) => {
      const { name, namespace } = event.metadata;
      if (name !== undefined && kept.has(name)) throw new KubeStatusError("POST", 409, { message: "exists" });
      if (name !== undefined) kept.add(name);
      const { type, reason, note, regarding } = event;
      sent.push({ at: clock.now(), name, namespace, type, reason, note, regarding });
    },
  } as unknown as KubeClient;
  const resource = { group: "networking.k8s.io", version: "v1", resource: "ingresses", kind: "Ingress" };

  const objects = new Set<string>();

  /** A new leader on the same plan, like a new process. */
  function lead() {
    const now = () => clock.now();
    const events = createEventRecorder({ client, component: "c", instance: "i", namespace: "own", now });
    const startTimer = (callback: () => void, ms: number) => clock.after(ms, callback);
    const source = { resourceOf: () => resource };
    const claimEvents = new ClaimEvents({ plan, source, events, client, log, wallClock: now, now, startTimer });
    plan.takeTouched();
    claimEvents.changed(objects);
    return { claimEvents, events, stop: () => void claimEvents.stop() };
  }
  let leader: ReturnType<typeof lead> | undefined;

  /** Waits for the end of a long loop. Such a loop yields with an immediate after each slice. */
  const settle = async () => {
    do await turn();
    while (process.getActiveResourcesInfo().includes("Immediate"));
  };

  /** Does what a round of the loop does. */
  const run = () => {
    plan.takeChanges();
    leader?.claimEvents.changed(plan.takeTouched());
  };
  return {
    clock,
    plan,
    sent,
    log,
    api,
    kept,
    /** Sets the names of an object `namespace/name`. Each has a target, or the reason why it has no target. */
    set(object: string, names: Readonly<Record<string, string | Reason>>, created = OLD, warning?: Reason) {
      const [namespace = "", name = ""] = object.split("/");
      const from = { kind: "Ingress", namespace, name };
      const claims = Object.entries(names).map(
        ([hostname, target]): Claim => ({
          hostname,
          target,
          from,
          created,
          ...(warning && { warning }),
        }),
      );
      objects.add(object);
      plan.set(object, claims);
    },
    run,
    lead() {
      leader?.stop();
      leader = lead();
      return leader;
    },
    /** Lets seconds pass. Long loops can end in each second. */
    async pass(seconds: number, each: (second: number) => void = () => {}) {
      for (let second = 0; second < seconds; second++) {
        each(second);
        await settle();
        for (let part = 0; part < 5; part++) {
          await clock.pass(200);
          await settle();
        }
      }
    },
  };
}
