import { createHash } from "node:crypto";
import { HOSTS_KEY, INJECT_KEY, INJECTED_KEY, ON_CHANGE_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";

/** The made-up part of the cluster. */
export interface Population {
  readonly pods: number;
  readonly nodes: number;
  readonly namespaces: number;
  /** Share of the namespaces that their label opts in, 0 to 1. */
  readonly optedIn: number;
  /** The value of `switchback.dev/on-change` of the opted-in namespaces. */
  readonly onChange: "restart" | "live";
  /** The annotation `switchback.dev/hosts` of the opted-in pods; undefined if they get every name. */
  readonly hosts?: string;
}

/** A kind of made-up objects. A field selector may use `fields`; the texts are JSON. */
export interface MadeUpKind {
  readonly apiVersion: string;
  readonly kind: string;
  readonly count: number;
  /**
   * Numbers of the objects in a namespace: the first one, and the one after the last one. Undefined without objects.
   */
  range(namespace: string): readonly [number, number] | undefined;
  /** The object's number; undefined if no object has this name. */
  numberOf(namespace: string | undefined, name: string): number | undefined;
  /** Whether the object with this number exists now. If absent, all exist. */
  has?(index: number): boolean;
  labels(index: number): Readonly<Record<string, string>>;
  fields(index: number): Readonly<Record<string, string>>;
  /** The object's metadata as JSON, with the resourceVersion. */
  metadata(index: number, version: number): string;
  /** The object without its metadata, as JSON members that start with a comma. */
  rest(index: number): string;
  /** The cells of the table, as JSON, and their columns. */
  readonly columns: readonly string[];
  cells(index: number): string;
}

const PODS_PER_WORKLOAD = 5;
const CREATED = "2026-01-05T08:00:00Z";

export function namespaceName(index: number): string {
  return `tenant-${String(index).padStart(5, "0")}`;
}

export function nodeName(index: number): string {
  return `node-${String(index).padStart(5, "0")}.region-1.compute.example.com`;
}

/**
 * Whether the namespace with this number is opted in. Opted-in namespaces are spread evenly; the first namespace is
 * one of them unless there are none.
 */
export function isOptedIn({ optedIn }: Population, namespace: number): boolean {
  return Math.floor(namespace * optedIn) !== Math.floor((namespace - 1) * optedIn);
}

/** Pod `index` of a population: its names and its node. Consecutive pods are on different nodes. */
export function podAt(population: Population, index: number) {
  const perNamespace = podsPerNamespace(population);
  const namespace = Math.floor(index / perNamespace);
  const within = index % perNamespace;
  const workload = Math.floor(within / PODS_PER_WORKLOAD);
  const app = `app-${String(workload).padStart(3, "0")}`;
  const template = token(namespace * 1_000 + workload, 9);
  return {
    namespace,
    app,
    template,
    name: `${app}-${template}-${String(within % PODS_PER_WORKLOAD)}${token(index, 4)}`,
    node: index % Math.max(1, population.nodes),
  };
}

function podsPerNamespace({ pods, namespaces }: Population): number {
  return Math.max(1, Math.ceil(pods / Math.max(1, namespaces)));
}

/** A uid from kind and number. For a pod, it is also the name of its directory under the kubelet's. */
export function uidOf(kind: string, index: number): string {
  const hash = createHash("md5").update(`${kind} ${index}`).digest("hex");
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-4${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20)}`;
}

/** The made-up kinds by resource. */
export function madeUpKinds(population: Population): Readonly<Record<string, MadeUpKind>> {
  return {
    pods: pods(population),
    namespaces: namespaces(population),
    replicasets: workloads(population, "ReplicaSet"),
    deployments: workloads(population, "Deployment"),
  };
}

function pods(population: Population): MadeUpKind {
  const perNamespace = podsPerNamespace(population);
  const base: Omit<MadeUpKind, "labels" | "fields" | "metadata" | "rest" | "columns" | "cells"> = {
    apiVersion: "v1",
    kind: "Pod",
    count: population.pods,
    range: (namespace) => rangeOf(population, namespace, perNamespace, population.pods),
    numberOf(namespace, name) {
      const [from, to] = this.range(namespace ?? "") ?? [0, 0];
      for (let index = from; index < to; index += 1) if (podAt(population, index).name === name) return index;
      return undefined;
    },
  };
  const labels = (index: number) => {
    const { app, template, namespace } = podAt(population, index);
    const injected = isOptedIn(population, namespace) ? { [INJECTED_KEY]: "true" } : {};
    return {
      "app.kubernetes.io/name": app,
      "app.kubernetes.io/part-of": "shop",
      "pod-template-hash": template,
      ...injected,
    };
  };
  return {
    ...base,
    labels,
    fields: (index) => {
      const { name, namespace, node } = podAt(population, index);
      return {
        "metadata.name": name,
        "metadata.namespace": namespaceName(namespace),
        "spec.nodeName": nodeName(node),
        "status.phase": "Running",
      };
    },
    metadata(index, version) {
      const { app, template, name, namespace } = podAt(population, index);
      const owner = ownerJson("ReplicaSet", `${app}-${template}`, uidOf("ReplicaSet", workloadOf(population, index)));
      const hosts = population.hosts === undefined ? {} : { [HOSTS_KEY]: population.hosts };
      const annotations = isOptedIn(population, namespace) ? { [REVISION_KEY]: "0123456789abcdef", ...hosts } : {};
      return metadataJson({
        name,
        namespace: namespaceName(namespace),
        generateName: `${app}-${template}-`,
        uid: uidOf("Pod", index),
        version,
        labels: labels(index),
        annotations: { "prometheus.io/scrape": "true", ...annotations },
        more: `,"ownerReferences":[${owner}],"managedFields":${POD_FIELDS}`,
      });
    },
    rest(index) {
      const { node } = podAt(population, index);
      return POD_REST.replace("NODE", nodeName(node)).replaceAll("ADDRESS", addressOf(index));
    },
    columns: POD_COLUMNS,
    cells(index) {
      const { name, node } = podAt(population, index);
      return JSON.stringify([name, "1/1", "Running", 0, "9d", addressOf(index), nodeName(node), "<none>", "<none>"]);
    },
  };
}

function namespaces(population: Population): MadeUpKind {
  const labels = (index: number) => ({
    "kubernetes.io/metadata.name": namespaceName(index),
    "pod-security.kubernetes.io/enforce": "baseline",
    ...(isOptedIn(population, index) ? { [INJECT_KEY]: "enabled" } : {}),
  });
  return {
    apiVersion: "v1",
    kind: "Namespace",
    count: population.namespaces,
    range: () => undefined,
    numberOf: (_, name) => namespaceNumber(population, name),
    labels,
    fields: (index) => ({ "metadata.name": namespaceName(index), "status.phase": "Active" }),
    metadata: (index, version) =>
      metadataJson({
        name: namespaceName(index),
        uid: uidOf("Namespace", index),
        version,
        labels: labels(index),
        annotations: isOptedIn(population, index) ? { [ON_CHANGE_KEY]: population.onChange } : {},
        more: `,"managedFields":${NAMESPACE_FIELDS}`,
      }),
    rest: () => ',"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}',
    columns: ["Name", "Status", "Age"],
    cells: (index) => JSON.stringify([namespaceName(index), "Active", "9d"]),
  };
}

/** The Deployments or their ReplicaSets: one for every five pods. */
function workloads(population: Population, kind: "ReplicaSet" | "Deployment"): MadeUpKind {
  const perNamespace = Math.ceil(podsPerNamespace(population) / PODS_PER_WORKLOAD);
  const count = population.pods === 0 ? 0 : perNamespace * population.namespaces;
  const partsOf = (index: number) => {
    const namespace = Math.floor(index / perNamespace);
    const first = namespace * podsPerNamespace(population) + (index % perNamespace) * PODS_PER_WORKLOAD;
    return { ...podAt(population, first), namespace };
  };
  const nameOf = (index: number) => {
    const { app, template } = partsOf(index);
    return kind === "Deployment" ? app : `${app}-${template}`;
  };
  const labels = (index: number) => ({ "app.kubernetes.io/name": partsOf(index).app });
  return {
    apiVersion: "apps/v1",
    kind,
    count,
    range: (namespace) => rangeOf(population, namespace, perNamespace, count),
    numberOf(namespace, name) {
      const [from, to] = this.range(namespace ?? "") ?? [0, 0];
      for (let index = from; index < to; index += 1) if (nameOf(index) === name) return index;
      return undefined;
    },
    labels,
    fields: (index) => ({ "metadata.name": nameOf(index) }),
    metadata(index, version) {
      const { app, namespace } = partsOf(index);
      const owner = ownerJson("Deployment", app, uidOf("Deployment", index));
      const references = kind === "ReplicaSet" ? `,"ownerReferences":[${owner}]` : "";
      return metadataJson({
        name: nameOf(index),
        namespace: namespaceName(namespace),
        uid: uidOf(kind, index),
        version,
        labels: labels(index),
        annotations: { "deployment.kubernetes.io/revision": "1" },
        more: `,"generation":1${references},"managedFields":${POD_FIELDS}`,
      });
    },
    rest: () => WORKLOAD_REST,
    columns: ["Name", "Desired", "Current", "Ready", "Age"],
    cells: (index) => JSON.stringify([nameOf(index), 5, 5, 5, "9d"]),
  };
}

function workloadOf(population: Population, pod: number): number {
  const perNamespace = podsPerNamespace(population);
  const namespace = Math.floor(pod / perNamespace);
  return namespace * Math.ceil(perNamespace / PODS_PER_WORKLOAD) + Math.floor((pod % perNamespace) / PODS_PER_WORKLOAD);
}

function namespaceNumber({ namespaces: count }: Population, name: string): number | undefined {
  const number = Number(/^tenant-(\d{5})$/.exec(name)?.[1] ?? Number.NaN);
  return number < count ? number : undefined;
}

function rangeOf(population: Population, namespace: string, each: number, count: number) {
  const number = namespaceNumber(population, namespace);
  return number === undefined
    ? undefined
    : ([Math.min(count, number * each), Math.min(count, (number + 1) * each)] as const);
}

/**
 * Random-looking letters for a number. Cheap, because a selector needs those of every pod: it takes only a few
 * multiplications.
 */
function token(seed: number, length: number): string {
  let hash = Math.imul(seed + 1, 0x9e3779b1);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  const text = ((hash ^ (hash >>> 13)) >>> 0).toString(16).padStart(8, "0");
  return text.repeat(2).slice(0, length);
}

function addressOf(index: number): string {
  return `10.${64 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
}

function ownerJson(kind: string, name: string, uid: string): string {
  return `{"apiVersion":"apps/v1","kind":"${kind}","name":"${name}","uid":"${uid}","controller":true,"blockOwnerDeletion":true}`;
}

interface Meta {
  readonly name: string;
  readonly namespace?: string;
  readonly generateName?: string;
  readonly uid: string;
  readonly version: number;
  readonly labels: object;
  readonly annotations: object;
  readonly more: string;
}

function metadataJson({ name, namespace, generateName, uid, version, labels, annotations, more }: Meta): string {
  const head = { name, generateName, namespace, uid, resourceVersion: String(version), creationTimestamp: CREATED };
  return `${JSON.stringify({ ...head, labels, annotations }).slice(0, -1)}${more}}`;
}

/** managedFields as the API server stores them, with a usual length. They are the largest part of a pod's metadata. */
function managedFields(managers: ReadonlyArray<readonly [string, number]>): string {
  const entries = managers.map(([manager, fields]) => ({
    manager,
    operation: "Update",
    apiVersion: "v1",
    time: CREATED,
    fieldsType: "FieldsV1",
    fieldsV1: {
      "f:metadata": Object.fromEntries(Array.from({ length: fields }, (_, index) => [`f:field-number-${index}`, {}])),
    },
  }));
  return JSON.stringify(entries);
}

const POD_FIELDS = managedFields([
  ["kube-controller-manager", 36],
  ["kubelet", 42],
]);
const NAMESPACE_FIELDS = managedFields([["kubectl-create", 6]]);

const POD_COLUMNS = [
  "Name",
  "Ready",
  "Status",
  "Restarts",
  "Age",
  "IP",
  "Node",
  "Nominated Node",
  "Readiness Gates",
] as const;

/** The pod's spec and status: one container with probes, a token volume, the usual tolerations and conditions. */
const POD_REST = `,${JSON.stringify({
  spec: {
    volumes: [{ name: "kube-api-access", projected: { sources: [], defaultMode: 420 } }],
    containers: [
      {
        name: "main",
        image: "registry.example.com/shop/app:1.4.2",
        ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
        env: [{ name: "PORT", value: "8080" }],
        resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "256Mi" } },
        readinessProbe: { httpGet: { path: "/ready", port: "http", scheme: "HTTP" }, periodSeconds: 10 },
        volumeMounts: [{ name: "kube-api-access", readOnly: true, mountPath: "/var/run/secrets" }],
        imagePullPolicy: "IfNotPresent",
      },
    ],
    restartPolicy: "Always",
    dnsPolicy: "ClusterFirst",
    serviceAccountName: "default",
    nodeName: "NODE",
    tolerations: [{ key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute" }],
  },
  status: {
    phase: "Running",
    conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
      type,
      status: "True",
      lastTransitionTime: CREATED,
    })),
    podIP: "ADDRESS",
    podIPs: [{ ip: "ADDRESS" }],
    containerStatuses: [{ name: "main", ready: true, restartCount: 0, state: { running: { startedAt: CREATED } } }],
    qosClass: "Burstable",
  },
}).slice(1, -1)}`;

/** The spec and status of a Deployment or ReplicaSet whose pods all exist. */
const WORKLOAD_REST = `,${JSON.stringify({
  spec: {
    replicas: PODS_PER_WORKLOAD,
    selector: { matchLabels: { "app.kubernetes.io/name": "app" } },
    strategy: { type: "RollingUpdate" },
    template: { metadata: { labels: { "app.kubernetes.io/name": "app" } }, spec: { containers: [{ name: "main" }] } },
  },
  status: {
    observedGeneration: 1,
    replicas: PODS_PER_WORKLOAD,
    updatedReplicas: PODS_PER_WORKLOAD,
    readyReplicas: PODS_PER_WORKLOAD,
    availableReplicas: PODS_PER_WORKLOAD,
  },
}).slice(1, -1)}`;
