import { ADDRESSES, API_URL, type ClusterNode, FAMILIES, statePath } from "./layout.ts";

const ETCD = "http://127.0.0.1:2379";
const ETCD_PEER = "http://127.0.0.1:2380";

/** Without fsync, because a test's data does not need to survive a power cut. */
export function etcdArgs(): string[] {
  return [
    `--data-dir=${statePath("etcd")}`,
    "--unsafe-no-fsync",
    `--listen-client-urls=${ETCD}`,
    `--advertise-client-urls=${ETCD}`,
    `--listen-peer-urls=${ETCD_PEER}`,
    `--initial-advertise-peer-urls=${ETCD_PEER}`,
    `--initial-cluster=default=${ETCD_PEER}`,
    "--log-level=warn",
  ];
}

export function apiServerArgs(): string[] {
  return [
    `--etcd-servers=${ETCD}`,
    `--bind-address=${ADDRESSES.node}`,
    `--advertise-address=${ADDRESSES.node}`,
    "--secure-port=6443",
    `--service-cluster-ip-range=${FAMILIES.map(({ serviceRange }) => serviceRange).join()}`,
    `--cert-dir=${statePath()}`,
    `--tls-cert-file=${statePath("apiserver.crt")}`,
    `--tls-private-key-file=${statePath("apiserver.key")}`,
    `--client-ca-file=${statePath("ca.crt")}`,
    `--kubelet-client-certificate=${statePath("apiserver-kubelet.crt")}`,
    `--kubelet-client-key=${statePath("apiserver-kubelet.key")}`,
    // Without this flag, `exec` and `logs` would look up the node's name.
    "--kubelet-preferred-address-types=InternalIP",
    `--token-auth-file=${statePath("tokens.csv")}`,
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    `--service-account-key-file=${statePath("service-account.pub")}`,
    `--service-account-signing-key-file=${statePath("service-account.key")}`,
  ];
}

export function controllerManagerArgs(): string[] {
  const kubeconfig = statePath("controller-manager.kubeconfig");
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--bind-address=127.0.0.1",
    `--cert-dir=${statePath()}`,
    "--leader-elect=false",
    "--use-service-account-credentials=true",
    `--service-account-private-key-file=${statePath("service-account.key")}`,
    `--root-ca-file=${statePath("ca.crt")}`,
    `--cluster-signing-cert-file=${statePath("ca.crt")}`,
    `--cluster-signing-key-file=${statePath("ca.key")}`,
  ];
}

export function schedulerArgs(): string[] {
  const kubeconfig = statePath("scheduler.kubeconfig");
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    "--bind-address=127.0.0.1",
    `--cert-dir=${statePath()}`,
    "--leader-elect=false",
  ];
}

export function kubeletArgs({ name, families }: ClusterNode): string[] {
  return [
    `--config=${statePath("kubelet.yaml")}`,
    `--kubeconfig=${statePath("kubelet.kubeconfig")}`,
    `--hostname-override=${name}`,
    `--node-ip=${families.map(({ node }) => node).join()}`,
    `--root-dir=${statePath("kubelet")}`,
    `--cert-dir=${statePath("kubelet", "pki")}`,
  ];
}

export function kubeProxyArgs({ name }: ClusterNode): string[] {
  return [
    `--kubeconfig=${statePath("proxy.kubeconfig")}`,
    `--master=${API_URL}`,
    `--hostname-override=${name}`,
    "--proxy-mode=nftables",
    `--cluster-cidr=${FAMILIES.map(({ podRange }) => podRange).join()}`,
    // The conntrack limits belong to the whole machine, so kube-proxy must not change them.
    "--conntrack-max-per-core=0",
    "--conntrack-min=0",
  ];
}

export function containerdArgs(): string[] {
  return [`--config=${statePath("containerd.toml")}`];
}
