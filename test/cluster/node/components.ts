import { apiServerFlags, controllerManagerFlags, etcdFlags } from "../control-plane-files.ts";
import { ADDRESSES, API_URL, type ClusterNode, FAMILIES, statePath } from "./layout.ts";

const ETCD = "http://127.0.0.1:2379";

export function etcdArgs(): string[] {
  return etcdFlags(statePath("etcd"), ETCD, "http://127.0.0.1:2380");
}

export function apiServerArgs(): string[] {
  return [
    ...apiServerFlags({
      folder: statePath(),
      etcd: ETCD,
      address: ADDRESSES.node,
      port: 6443,
      advertised: ADDRESSES.node,
      serviceRanges: FAMILIES.map(({ serviceRange }) => serviceRange).join(),
    }),
    `--kubelet-client-certificate=${statePath("apiserver-kubelet.crt")}`,
    `--kubelet-client-key=${statePath("apiserver-kubelet.key")}`,
    // Without this flag, `exec` and `logs` would look up the node's name.
    "--kubelet-preferred-address-types=InternalIP",
    "--enable-admission-plugins=NodeRestriction",
  ];
}

export function controllerManagerArgs(): string[] {
  const kubeconfig = "controller-manager.kubeconfig";
  return [
    ...controllerManagerFlags(statePath(), kubeconfig, statePath()),
    `--authentication-kubeconfig=${statePath(kubeconfig)}`,
    `--authorization-kubeconfig=${statePath(kubeconfig)}`,
    "--use-service-account-credentials=true",
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
