import { ON_CHANGE_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_WATCH } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";
import { inferFromNames, isReplicaSet, ownerOf, type ReplicaSetOwner, replicaSetOwner } from "#lib/workloads/owners.ts";
import { isWorkloadKind, replicaSetPath, workloadPath } from "#lib/workloads/workload-kinds.ts";
import type { NodePod } from "./node-pod.ts";

/**
 * The annotation `switchback.dev/on-change` of a workload. `known: false`: it was requested, and no answer has come
 * yet.
 */
export type OwnerAnnotation =
  | { readonly known: true; readonly onChange: string | undefined }
  | { readonly known: false };

export interface OwnerAnnotations {
  /** The annotation of a pod's workload, at once, from memory. Requests it if it is not known or too old. */
  onChangeOf(pod: NodePod): OwnerAnnotation;
  /** What a namespace says, likewise; undefined: not known yet. One that does not exist says nothing. */
  namespaceOf(name: string): NamespaceFacts | undefined;
  /** Forgets the owners that were not looked up since the last call. */
  tidy(): void;
}

/**
 * A changed annotation is noticed this late. A node reads each of its workloads and namespaces this often, and no
 * others.
 */
const FRESH_MS = 5 * 60_000;
const RETRY_MS = 15_000;
/** Jitter, so that the agents of many nodes do not send their requests together. */
const SPREAD = 0.4;

interface Known {
  /** A workload has no label that opts in. Undefined: no answer has come yet. */
  answer: NamespaceFacts | undefined;
  /** When to read it again, by the caller's clock. */
  dueAt: number;
  reading: boolean;
  used: boolean;
}

const NONE: NamespaceFacts = { inject: undefined, onChange: undefined };

/**
 * The annotations of the pods' workloads, and what namespaces say that are not watched, each read with GETs and kept
 * for minutes: a watch of every workload of the cluster on every node would cost far more. An owner of another kind
 * has no annotation.
 */
export function createOwnerAnnotations(deps: {
  readonly client: Pick<KubeClient, "get">;
  readonly log: Logger;
  /** Milliseconds, never going back. */
  readonly now: () => number;
  readonly random: () => number;
  /** What the agents of many nodes add to the time that an annotation is kept, milliseconds. */
  readonly spreadMs: () => number;
  /** An annotation that was requested became known, or changed. */
  readonly onLearned: () => void;
}): OwnerAnnotations {
  const { client, log, now, random, spreadMs, onLearned } = deps;
  const owners = new Map<string, Known>();

  const read = async (key: string, known: Known, ask: () => Promise<NamespaceFacts>): Promise<void> => {
    known.reading = true;
    try {
      const answer = await ask();
      known.dueAt = now() + (FRESH_MS + spreadMs()) * (1 + SPREAD * (random() - 0.5));
      const before = known.answer;
      known.answer = answer;
      if (before?.inject !== answer.inject || before?.onChange !== answer.onChange || before === undefined) onLearned();
    } catch (error) {
      // What was known stays known.
      known.dueAt = now() + RETRY_MS;
      log.warn({ owner: key, error: describeError(error) }, "annotation: not read");
    } finally {
      known.reading = false;
    }
  };

  const lookUp = (key: string, ask: () => Promise<NamespaceFacts>): NamespaceFacts | undefined => {
    const known = owners.get(key) ?? { answer: undefined, dueAt: 0, reading: false, used: true };
    owners.set(key, known);
    known.used = true;
    if (!known.reading && now() >= known.dueAt) void read(key, known, ask);
    return known.answer;
  };

  /** An owner that cannot exist is kept as one that was read, so that it is reported once. */
  const report = (key: string, pod: NodePod, reason: Reason): void => {
    const known = owners.get(key);
    if (known !== undefined) {
      known.used = true;
      return;
    }
    owners.set(key, { answer: NONE, dueAt: Number.POSITIVE_INFINITY, reading: false, used: true });
    log.warn({ pod: `${pod.namespace}/${pod.name}`, ...reason }, "workload: not read");
  };

  return {
    onChangeOf(pod) {
      const { key, unrestartable } = ownerOf(pod, inferFromNames);
      if (unrestartable !== undefined && !isReplicaSet(pod.owner)) {
        if (unrestartable.code === "owner-name-invalid") report(key, pod, unrestartable);
        return { known: true, onChange: undefined };
      }
      const answer = lookUp(key, async () => ({ inject: undefined, onChange: await readOnChange(client, pod) }));
      return answer === undefined ? { known: false } : { known: true, onChange: answer.onChange };
    },
    // The keys of workloads have slashes.
    namespaceOf: (name) => lookUp(name, () => readNamespace(client, name)),
    tidy() {
      for (const [key, known] of owners) {
        if (known.used) known.used = false;
        else owners.delete(key);
      }
    },
  };
}

async function readOnChange(client: Pick<KubeClient, "get">, pod: NodePod): Promise<string | undefined> {
  const parent = await readReplicaSetOwner(client, pod);
  const { namespace, kind, name, unrestartable } = ownerOf(pod, () => parent);
  if (unrestartable !== undefined || !isWorkloadKind(kind)) return undefined;
  const workload = await getIfThere(client, workloadPath(namespace, kind, name));
  return workload?.metadata?.annotations?.[ON_CHANGE_KEY];
}

async function readNamespace(client: Pick<KubeClient, "get">, name: string): Promise<NamespaceFacts> {
  return namespaceFacts((await getIfThere(client, corePath("namespaces", undefined, name))) ?? {});
}

async function readReplicaSetOwner(
  client: Pick<KubeClient, "get">,
  { namespace, owner }: NodePod,
): Promise<ReplicaSetOwner> {
  if (!isReplicaSet(owner)) return "none";
  return replicaSetOwner((await getIfThere(client, replicaSetPath(namespace, owner.name)))?.metadata);
}

async function getIfThere(client: Pick<KubeClient, "get">, path: string): Promise<ApiObject | undefined> {
  return await client.get<ApiObject>(path, {}, { accept: METADATA_WATCH }).catch((error) => {
    if (statusOf(error) === 404) return undefined;
    throw error;
  });
}
