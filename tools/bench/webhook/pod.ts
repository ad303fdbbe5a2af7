const LABELS = { app: "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d9c7b8f6d" };
const OWNER = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-5d9c7b8f6d", controller: true };

const CONTAINER = {
  name: "web",
  image: "registry.example.com/shop/web@sha256:3b1c6a6d1c1f0a9b8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a4938271",
  ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
  env: Array.from({ length: 32 }, (_, index) => ({ name: `SETTING_${index}`, value: `value-of-setting-${index}` })),
  resources: { limits: { memory: "256Mi" }, requests: { cpu: "100m", memory: "256Mi" } },
  livenessProbe: { httpGet: { path: "/healthz", port: 8080 }, periodSeconds: 10, failureThreshold: 3 },
  readinessProbe: { httpGet: { path: "/readyz", port: 8080 }, periodSeconds: 10, failureThreshold: 3 },
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] }, runAsNonRoot: true },
};

const SPEC = {
  containers: [CONTAINER],
  restartPolicy: "Always",
  terminationGracePeriodSeconds: 30,
  dnsPolicy: "ClusterFirst",
  serviceAccountName: "default",
  securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
  tolerations: ["not-ready", "unreachable"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: 300,
  })),
};

/** The fields of a value, as a manager owns them. They are a large part of most pods. */
function fieldsOf(value: unknown): object {
  const entries = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return Object.fromEntries(entries.map(([key, part]) => [`f:${key}`, Array.isArray(part) ? {} : fieldsOf(part)]));
}

function pod(annotations: object | undefined, hostAliases: object | undefined): object {
  const fieldsV1 = { "f:metadata": fieldsOf({ labels: LABELS }), "f:spec": fieldsOf({ ...SPEC, "c:web": CONTAINER }) };
  const managedFields = [{ manager: "kube-controller-manager", operation: "Update", fieldsType: "FieldsV1", fieldsV1 }];
  const head = { generateName: "web-5d9c7b8f6d-", namespace: "shop", labels: LABELS, ownerReferences: [OWNER] };
  const metadata = { ...head, ...(annotations && { annotations }), managedFields };
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata,
    spec: { ...SPEC, ...(hostAliases && { hostAliases }) },
    status: {},
  };
}

/** Pods of 4 KB as the API server sends them: a plain one, one with an annotation, one with aliases of its user. */
export const PODS: readonly object[] = [
  pod(undefined, undefined),
  pod({ "example.com/team": "shop" }, undefined),
  pod(undefined, [{ ip: "203.0.113.7", hostnames: ["legacy.example.net"] }]),
];
