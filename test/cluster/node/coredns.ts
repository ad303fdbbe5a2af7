import { stringify } from "yaml";
import { IMAGES } from "../images.ts";
import { ADDRESSES, CLUSTER_DOMAIN, FAMILIES } from "./layout.ts";

/** The Corefile that kubeadm writes. */
export const COREFILE = `.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes ${CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`;

const meta = { namespace: "kube-system", name: "coredns" };
const labels = { "k8s-app": "kube-dns" };

/** Cluster DNS with kubeadm's names, Corefile and rights. Queries for other domains go to the public DNS. */
export function corednsObjects(): string {
  return [serviceAccount, clusterRole, clusterRoleBinding, configMap, service, deployment]
    .map((o) => stringify(o))
    .join("---\n");
}

const serviceAccount = { apiVersion: "v1", kind: "ServiceAccount", metadata: meta };

const clusterRole = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRole",
  metadata: { name: "system:coredns" },
  rules: [
    { apiGroups: [""], resources: ["endpoints", "services", "pods", "namespaces"], verbs: ["list", "watch"] },
    { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
  ],
};

const clusterRoleBinding = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "ClusterRoleBinding",
  metadata: { name: "system:coredns" },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "system:coredns" },
  subjects: [{ kind: "ServiceAccount", ...meta }],
};

const configMap = { apiVersion: "v1", kind: "ConfigMap", metadata: meta, data: { Corefile: COREFILE } };

const service = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { namespace: "kube-system", name: "kube-dns", labels },
  spec: {
    selector: labels,
    ipFamilyPolicy: "PreferDualStack",
    clusterIP: ADDRESSES.dnsService,
    clusterIPs: FAMILIES.map(({ dnsService }) => dnsService),
    ports: [
      { name: "dns", port: 53, protocol: "UDP" },
      { name: "dns-tcp", port: 53, protocol: "TCP" },
      { name: "metrics", port: 9153, protocol: "TCP" },
    ],
  },
};

const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { ...meta, labels },
  spec: {
    replicas: 1,
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        serviceAccountName: "coredns",
        priorityClassName: "system-cluster-critical",
        dnsPolicy: "Default",
        containers: [
          {
            name: "coredns",
            image: IMAGES.coredns,
            imagePullPolicy: "Never",
            args: ["-conf", "/etc/coredns/Corefile"],
            resources: { requests: { cpu: "50m", memory: "70Mi" } },
            ports: [
              { name: "dns", containerPort: 53, protocol: "UDP" },
              { name: "dns-tcp", containerPort: 53, protocol: "TCP" },
            ],
            readinessProbe: { httpGet: { path: "/ready", port: 8181 }, periodSeconds: 1 },
            volumeMounts: [{ name: "config", mountPath: "/etc/coredns", readOnly: true }],
            securityContext: {
              allowPrivilegeEscalation: false,
              capabilities: { add: ["NET_BIND_SERVICE"], drop: ["ALL"] },
              readOnlyRootFilesystem: true,
              // root may listen on ports below 1024 without a file capability. This also works where the capability
              // would not reach a program that is not root.
              runAsUser: 0,
            },
          },
        ],
        volumes: [{ name: "config", configMap: { name: "coredns" } }],
      },
    },
  },
};
