import type { RolloutStatus } from "#controller/rollout/rollout-status.ts";
import type { StatusDocument } from "#controller/status.ts";

// Kubernetes objects as the tests write and read them.

export interface HostAlias {
  ip: string;
  hostnames: string[];
}

export interface Pod {
  metadata: { name: string; annotations?: Record<string, string> };
  spec: { hostAliases?: HostAlias[] };
}

export interface PodParts {
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  hostAliases?: HostAlias[];
  hostNetwork?: boolean;
}

/** A controller's `/status`. */
export type Status = StatusDocument & {
  certificates?: { state: { code: string }; bundle: string };
  running?: RolloutStatus;
};

/** A pod as it is sent to the API server. */
export function podObject(namespace: string, name: string, parts: PodParts = {}): object {
  const { labels = {}, annotations = {}, ...spec } = parts;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace, labels, annotations },
    spec: { ...spec, containers: [{ name: "c", image: "example.com/c:1" }] },
  };
}

/** YAML of a namespace, with the label that opts it in. */
export function namespaceYaml(name: string, inject?: string): string {
  const labels = inject === undefined ? "{}" : `{ switchback.dev/inject: "${inject}" }`;
  return `apiVersion: v1\nkind: Namespace\nmetadata: { name: "${name}", labels: ${labels} }\n---\n`;
}

export interface WorkloadParts {
  /** Metadata of its pods, in addition to the label. */
  readonly template?: object;
  readonly spec?: object;
}

/** YAML of a Deployment, StatefulSet or DaemonSet with one container. */
export function workload(kind: string, name: string, namespace: string, parts: WorkloadParts = {}): string {
  const { template = {}, spec = {} } = parts;
  const object = {
    apiVersion: "apps/v1",
    kind,
    metadata: { name, namespace },
    spec: {
      selector: { matchLabels: { app: name } },
      ...(kind === "StatefulSet" ? { serviceName: name } : {}),
      ...spec,
      template: {
        metadata: { labels: { app: name }, ...template },
        // The only node of the tests has no kubelet, and has a taint for that reason.
        spec: { tolerations: [{ operator: "Exists" }], containers: [{ name: "c", image: "example.com/c:1" }] },
      },
    },
  };
  return `${JSON.stringify(object)}\n---\n`;
}

export interface IngressParts {
  readonly namespace?: string;
  /** null for no class. */
  readonly className?: string | null;
  readonly annotations?: Record<string, string>;
  readonly tlsHosts?: readonly string[];
}

/** YAML of an Ingress for some hosts. */
export function ingress(name: string, hosts: readonly string[], parts: IngressParts = {}): string {
  const { namespace = "default", className = "nginx", annotations = {}, tlsHosts } = parts;
  const object = {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { name, namespace, annotations },
    spec: {
      ...(className !== null && { ingressClassName: className }),
      ...(tlsHosts && { tls: [{ hosts: tlsHosts }] }),
      rules: hosts.map((host) => ({ host })),
    },
  };
  return `${JSON.stringify(object)}\n---\n`;
}

/** Every mapped name of a pod once. The fronts are dual-stack, so our names have two addresses. */
export function mapped(pod: Pod): string[] {
  return [...new Set((pod.spec.hostAliases ?? []).flatMap(({ hostnames }) => hostnames))].sort();
}

/** The Service of the default target. Names lead to that target only if the Service exists. */
export const INGRESS_CONTROLLER = `
apiVersion: v1
kind: Namespace
metadata: { name: ingress-nginx }
---
apiVersion: v1
kind: Service
metadata: { namespace: ingress-nginx, name: ingress-nginx-controller }
spec: { ports: [{ name: http, port: 80 }, { name: https, port: 443 }] }
`;
