/**
 * One kind of pod as the API server sends it to the webhook: a Deployment's container with its mounted service
 * account, 5 KB.
 */
export interface PodShape {
  readonly title: string;
  readonly object: object;
}

const LABELS = { app: "web", "app.kubernetes.io/part-of": "shop", "pod-template-hash": "5d9c7b8f6d" };
const OWNER = {
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  name: "web-5d9c7b8f6d",
  uid: "a5b2c7de-0c1f-4b1e-9a54-3f0b5d1c2e77",
  controller: true,
  blockOwnerDeletion: true,
};

/** Fields that kube-controller-manager has set. They are the largest part of most pods. */
const MANAGED_FIELDS = [
  {
    manager: "kube-controller-manager",
    operation: "Update",
    apiVersion: "v1",
    time: "2026-01-01T00:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: {
      "f:metadata": {
        "f:generateName": {},
        "f:labels": Object.fromEntries([".", ...Object.keys(LABELS).map((key) => `f:${key}`)].map((key) => [key, {}])),
        "f:ownerReferences": { ".": {}, 'k:{"uid":"a5b2c7de-0c1f-4b1e-9a54-3f0b5d1c2e77"}': {} },
      },
      "f:spec": {
        "f:containers": {
          'k:{"name":"web"}': Object.fromEntries(
            [
              ".",
              "f:env",
              "f:image",
              "f:imagePullPolicy",
              "f:livenessProbe",
              "f:name",
              "f:ports",
              "f:readinessProbe",
              "f:resources",
              "f:securityContext",
              "f:terminationMessagePath",
              "f:terminationMessagePolicy",
              "f:volumeMounts",
            ].map((key) => [key, { ".": {} }]),
          ),
        },
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:securityContext": {},
        "f:terminationGracePeriodSeconds": {},
        "f:topologySpreadConstraints": { ".": {} },
      },
    },
  },
];

function probe(path: string) {
  return {
    httpGet: { path, port: 8080, scheme: "HTTP" },
    initialDelaySeconds: 5,
    timeoutSeconds: 1,
    periodSeconds: 10,
    successThreshold: 1,
    failureThreshold: 3,
  };
}

const CONTAINER = {
  name: "web",
  image: "registry.example.com/shop/web@sha256:3b1c6a6d1c1f0a9b8e7d6c5b4a39281706f5e4d3c2b1a0f9e8d7c6b5a4938271",
  ports: [{ name: "http", containerPort: 8080, protocol: "TCP" }],
  env: Array.from({ length: 12 }, (_, index) => ({ name: `SETTING_${index}`, value: `value-of-setting-${index}` })),
  resources: { limits: { memory: "256Mi" }, requests: { cpu: "100m", memory: "256Mi" } },
  volumeMounts: [
    { name: "config", mountPath: "/etc/web" },
    { name: "kube-api-access-x7k2p", readOnly: true, mountPath: "/var/run/secrets/kubernetes.io/serviceaccount" },
  ],
  livenessProbe: probe("/healthz"),
  readinessProbe: probe("/readyz"),
  terminationMessagePath: "/dev/termination-log",
  terminationMessagePolicy: "File",
  imagePullPolicy: "IfNotPresent",
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] }, runAsNonRoot: true },
};

const VOLUMES = [
  { name: "config", configMap: { name: "web", defaultMode: 420 } },
  {
    name: "kube-api-access-x7k2p",
    projected: {
      sources: [
        { serviceAccountToken: { expirationSeconds: 3607, path: "token" } },
        { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
        {
          downwardAPI: {
            items: [{ path: "namespace", fieldRef: { apiVersion: "v1", fieldPath: "metadata.namespace" } }],
          },
        },
      ],
      defaultMode: 420,
    },
  },
];

function pod(annotations: object | undefined, hostAliases: object | undefined): object {
  return {
    kind: "Pod",
    apiVersion: "v1",
    metadata: {
      generateName: "web-5d9c7b8f6d-",
      namespace: "shop",
      labels: LABELS,
      ...(annotations && { annotations }),
      ownerReferences: [OWNER],
      managedFields: MANAGED_FIELDS,
    },
    spec: {
      volumes: VOLUMES,
      containers: [CONTAINER],
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      dnsPolicy: "ClusterFirst",
      serviceAccountName: "default",
      serviceAccount: "default",
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      ...(hostAliases && { hostAliases }),
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
    },
    status: {},
  };
}

/** The shapes that the benchmark sends in turns. */
export const POD_SHAPES: readonly PodShape[] = [
  { title: "plain", object: pod(undefined, undefined) },
  { title: "annotated", object: pod({ "example.com/team": "shop" }, undefined) },
  { title: "own-alias", object: pod(undefined, [{ ip: "203.0.113.7", hostnames: ["legacy.example.net"] }]) },
];
