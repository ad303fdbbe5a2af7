const LABELS = { app: "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d9c7b8f6d" };
const UID = "a5b2c7de-0c1f-4b1e-9a54-3f0b5d1c2e77";
const OWNER = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-5d9c7b8f6d", uid: UID, controller: true };
const ACCOUNT = "kube-api-access-x7k2p";

/** Fields as in managedFields. */
function fields(...keys: readonly string[]): object {
  return Object.fromEntries(keys.map((key) => [key, { ".": {} }]));
}

function probe(path: string): object {
  const httpGet = { path, port: 8080, scheme: "HTTP" };
  const thresholds = { successThreshold: 1, failureThreshold: 3 };
  return { httpGet, initialDelaySeconds: 5, timeoutSeconds: 1, periodSeconds: 10, ...thresholds };
}

const CONTAINER = {
  name: "web",
  image: "registry.example.com/shop/web@sha256:3b1c6a6d1c1f0a9b8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a4938271",
  ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
  env: Array.from({ length: 12 }, (_, index) => ({ name: `SETTING_${index}`, value: `value-of-setting-${index}` })),
  resources: { limits: { memory: "256Mi" }, requests: { cpu: "100m", memory: "256Mi" } },
  volumeMounts: [
    { name: "config", mountPath: "/etc/web" },
    { name: ACCOUNT, readOnly: true, mountPath: "/var/run/secrets/kubernetes.io/serviceaccount" },
  ],
  livenessProbe: probe("/healthz"),
  readinessProbe: probe("/readyz"),
  terminationMessagePath: "/dev/termination-log",
  terminationMessagePolicy: "File",
  imagePullPolicy: "IfNotPresent",
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] }, runAsNonRoot: true },
};

const TOKEN_SOURCES = [
  { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
  { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
  { downwardAPI: { items: [{ path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } }] } },
];

const SPEC = {
  volumes: [
    { name: "config", configMap: { name: "web", defaultMode: 420 } },
    { name: ACCOUNT, projected: { sources: TOKEN_SOURCES, defaultMode: 420 } },
  ],
  containers: [CONTAINER],
  restartPolicy: "Always",
  terminationGracePeriodSeconds: 30,
  dnsPolicy: "ClusterFirst",
  serviceAccountName: "default",
  serviceAccount: "default",
  securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
  schedulerName: "default-scheduler",
  tolerations: ["not-ready", "unreachable"].map((key) => ({
    key: `node.kubernetes.io/${key}`,
    operator: "Exists",
    effect: "NoExecute",
    tolerationSeconds: 300,
  })),
  priority: 0,
  enableServiceLinks: true,
  preemptionPolicy: "PreemptLowerPriority",
};

/** The part that kube-controller-manager has set. It is the largest part of most pods. */
const MANAGED_FIELDS = {
  manager: "kube-controller-manager",
  operation: "Update",
  apiVersion: "v1",
  time: "2026-01-01T00:00:00Z",
  fieldsType: "FieldsV1",
  fieldsV1: {
    "f:metadata": {
      "f:generateName": {},
      "f:labels": fields(".", ...Object.keys(LABELS).map((key) => `f:${key}`)),
      "f:ownerReferences": fields(".", `k:{"uid":"${UID}"}`),
    },
    "f:spec": {
      "f:containers": { 'k:{"name":"web"}': fields(".", ...Object.keys(CONTAINER).map((key) => `f:${key}`)) },
      ...fields(...Object.keys(SPEC).map((key) => `f:${key}`)),
    },
  },
};

function pod(more: { readonly annotations?: object; readonly hostAliases?: object }): object {
  const { annotations, hostAliases } = more;
  const metadata = {
    generateName: "web-5d9c7b8f6d-",
    namespace: "shop",
    labels: LABELS,
    ...(annotations && { annotations }),
    ownerReferences: [OWNER],
    managedFields: [MANAGED_FIELDS],
  };
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata,
    spec: { ...SPEC, ...(hostAliases && { hostAliases }) },
    status: {},
  };
}

/** Pods of 5 KB as the API server sends them: a plain one, one with an annotation, one with aliases of its user. */
export const PODS: readonly object[] = [
  pod({}),
  pod({ annotations: { "example.com/team": "shop" } }),
  pod({ hostAliases: [{ ip: "203.0.113.7", hostnames: ["legacy.example.net"] }] }),
];
