import { describeError, statusOf } from "../errors/errors.ts";
import { ON_CHANGE_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import type { Logger } from "../telemetry/log.ts";
import type { NodePod, OwnerRef, RawPod } from "./node-pod.ts";

/** What a workload says by `switchback.dev/on-change`. `known: false`: it was asked and has not answered yet. */
export type OwnerAnnotation = { readonly known: true; readonly word: string | undefined } | { readonly known: false };

interface OwnerAnnotations {
  /** The word of a pod's workload, at once: from memory. Asks for what is not known, or was learned long ago. */
  onChangeOf(pod: NodePod): OwnerAnnotation;
  /** Forgets the owners that no pod was asked about since the last call. */
  tidy(): void;
}

/** A changed annotation of a workload is noticed this late. A node asks for each of its workloads so often, and for no others. */
const FRESH_MS = 5 * 60_000;
const RETRY_MS = 15_000;
/** Spread, so that the agents of many nodes do not come together. */
const SPREAD = 0.4;
/** A ReplicaSet's owner is the last that is asked for. */
const MAX_DEPTH = 2;

interface Known {
  answer: OwnerAnnotation;
  /** When to ask again, by the caller's clock. */
  dueAt: number;
  asking: boolean;
  used: boolean;
}

const NONE: OwnerAnnotation = { known: true, word: undefined };
const PLURALS: Readonly<Record<string, string>> = {
  ReplicaSet: "replicasets",
  Deployment: "deployments",
  StatefulSet: "statefulsets",
  DaemonSet: "daemonsets",
};

/**
 * Pod -> ReplicaSet -> Deployment, StatefulSet or DaemonSet, asked for one by one and remembered for minutes: a watch of every
 * workload of the cluster on every node would cost far more. An owner of another kind has no word.
 */
export function createOwnerAnnotations(deps: {
  readonly client: Pick<KubeClient, "get">;
  readonly log: Logger;
  /** Milliseconds, never going back. */
  readonly now: () => number;
  readonly random: () => number;
  /** Something that was asked for became known, or changed. */
  readonly onLearned: () => void;
}): OwnerAnnotations {
  const { client, log, now, random, onLearned } = deps;
  const owners = new Map<string, Known>();

  const ask = async (key: string, known: Known, namespace: string, owner: OwnerRef): Promise<void> => {
    known.asking = true;
    try {
      const word = await readWord(client, namespace, owner, MAX_DEPTH);
      known.dueAt = now() + FRESH_MS * (1 + SPREAD * (random() - 0.5));
      const before = known.answer;
      known.answer = { known: true, word };
      if (!before.known || before.word !== word) onLearned();
    } catch (error) {
      // What was known stays known.
      known.dueAt = now() + RETRY_MS;
      log.warn({ owner: key, error: describeError(error) }, "workload: not read");
    } finally {
      known.asking = false;
    }
  };

  return {
    onChangeOf({ namespace, owner }) {
      if (owner === undefined || pathOf(namespace, owner) === undefined) return NONE;
      const key = `${namespace}/${owner.kind}/${owner.name}`;
      const known = owners.get(key) ?? { answer: { known: false }, dueAt: 0, asking: false, used: true };
      owners.set(key, known);
      known.used = true;
      if (!known.asking && now() >= known.dueAt) void ask(key, known, namespace, owner);
      return known.answer;
    },
    tidy() {
      for (const [key, known] of owners) {
        if (known.used) known.used = false;
        else owners.delete(key);
      }
    },
  };
}

function pathOf(namespace: string, { apiVersion, kind, name }: OwnerRef): string | undefined {
  const resource = apiVersion.startsWith("apps/") && Object.hasOwn(PLURALS, kind) ? PLURALS[kind] : undefined;
  return resource && resourcePath({ group: "apps", version: "v1", namespace, resource, name });
}

async function readWord(
  client: Pick<KubeClient, "get">,
  namespace: string,
  owner: OwnerRef,
  depth: number,
): Promise<string | undefined> {
  const path = pathOf(namespace, owner);
  if (path === undefined || depth === 0) return undefined;
  const object = await client.get<RawPod>(path).catch((error) => {
    if (statusOf(error) === 404) return undefined;
    throw error;
  });
  if (owner.kind !== "ReplicaSet") return object?.metadata?.annotations?.[ON_CHANGE_KEY];
  const above = object?.metadata?.ownerReferences?.find(({ controller }) => controller);
  return above && readWord(client, namespace, above, depth - 1);
}
