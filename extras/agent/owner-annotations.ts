import { ON_CHANGE_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import { describeError, ifFound } from "#lib/errors/errors.ts";
import { METADATA_WATCH } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type NamespaceFacts, namespaceFacts } from "#lib/workloads/namespaces.ts";
import { isReplicaSet, ownerOf, type ReplicaSetOwner, replicaSetOwner } from "#lib/workloads/owners.ts";
import { isWorkloadKind, replicaSetPath, workloadPath } from "#lib/workloads/workload-kinds.ts";
import type { NodePod } from "./node-pod.ts";

/**
 * The annotation `switchback.dev/on-change` of a workload. `known: false`: it was requested, but no answer has
 * arrived yet.
 */
export type OwnerAnnotation =
  | { readonly known: true; readonly onChange: string | undefined }
  | { readonly known: false };

export interface OwnerAnnotations {
  /**
   * Returns the annotation of a pod's workload from memory, without waiting. Requests it if it is missing or too old.
   */
  onChangeOf(pod: NodePod): OwnerAnnotation;
  /**
   * Returns the facts of a namespace in the same way. Undefined if not known yet. A missing namespace has no label or
   * annotation.
   */
  namespaceOf(name: string): NamespaceFacts | undefined;
  /** Forgets the owners that were not looked up since the last call. */
  tidy(): void;
}

/**
 * How long an answer is kept, in milliseconds. A changed annotation is detected this late. A node reads only its own
 * workloads and namespaces.
 */
const FRESH_MS = 5 * 60_000;
const RETRY_MS = 15_000;
/** Jitter, so that the agents of many nodes do not send their requests together. */
const SPREAD = 0.4;

interface Known {
  /**
   * The last answer. Undefined if there is none yet. For a workload, `inject` is undefined: its labels do not opt in.
   */
  answer: NamespaceFacts | undefined;
  /** When to read it again, by the caller's clock. */
  dueAt: number;
  reading: boolean;
  used: boolean;
}

const NONE: NamespaceFacts = { inject: undefined, onChange: undefined };

/**
 * Reads the annotations of the pods' workloads, and the facts of namespaces that are not watched. It reads each with
 * GETs and keeps the answer for minutes. A watch of every workload of the cluster on every node would cost far more.
 * An owner of another kind has no annotation.
 */
export function createOwnerAnnotations(deps: {
  readonly client: Pick<KubeClient, "get">;
  readonly log: Logger;
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
  readonly random: () => number;
  /** Time that is added to the lifetime of an answer when many agents run, in milliseconds. */
  readonly spreadMs: () => number;
  /** Called when a requested answer arrives for the first time, or has changed. */
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
      // The last answer stays.
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

  /** Logs an owner that cannot exist. It is kept like an owner that was read, so that it is logged only once. */
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
      const { key, unrestartable } = ownerOf(pod);
      if (unrestartable !== undefined && !isReplicaSet(pod.owner)) {
        if (unrestartable.code === "owner-name-invalid") report(key, pod, unrestartable);
        return { known: true, onChange: undefined };
      }
      const answer = lookUp(key, async () => ({ inject: undefined, onChange: await readOnChange(client, pod) }));
      return answer === undefined ? { known: false } : { known: true, onChange: answer.onChange };
    },
    // A namespace's name cannot be the key of a workload: those have slashes.
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
  const { namespace, kind, name, unrestartable } = ownerOf(pod, parent);
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
  return await ifFound(client.get<ApiObject>(path, {}, { accept: METADATA_WATCH }));
}
