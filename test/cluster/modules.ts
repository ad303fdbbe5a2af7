import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Release } from "./releases.ts";

/** Name of the variable that selects a minor version of `KUBERNETES`. */
export const TEST_KUBERNETES = "TEST_KUBERNETES";
/** Name of the variable that replaces Helm 4 with Helm 3 if its value is `3`. */
export const TEST_HELM = "TEST_HELM";

// The pinned versions of everything that the tests take from Go modules. Renovate updates them: .github/renovate.json
// has a pattern for their form.

/** The version that the tests use, unless TEST_KUBERNETES selects another one. */
const CURRENT_KUBERNETES: Release = { module: "k8s.io/kubernetes", version: "v1.37.2" };

/** The newest patch release of each minor that the chart supports. */
export const KUBERNETES: Readonly<Record<string, Release>> = {
  "1.30": { module: "k8s.io/kubernetes", version: "v1.30.14" },
  "1.31": {
    module: "k8s.io/kubernetes",
    version: "v1.31.14",
    instead: {
      "k8s.io/endpointslice": "v0.31.13",
      "k8s.io/kube-controller-manager": "v0.31.13",
      "k8s.io/kube-proxy": "v0.31.11",
      "k8s.io/kube-scheduler": "v0.31.13",
    },
  },
  "1.32": {
    module: "k8s.io/kubernetes",
    version: "v1.32.13",
    instead: { "k8s.io/endpointslice": "v0.32.12" },
  },
  "1.33": { module: "k8s.io/kubernetes", version: "v1.33.13" },
  "1.34": { module: "k8s.io/kubernetes", version: "v1.34.4" },
  "1.35": { module: "k8s.io/kubernetes", version: "v1.35.4" },
  "1.36": { module: "k8s.io/kubernetes", version: "v1.36.3" },
  "1.37": CURRENT_KUBERNETES,
};

/** The current Gateway API, of which the tests read only definitions. */
export const GATEWAY_API: Release = { module: "sigs.k8s.io/gateway-api", version: "v1.7.0" };

/** Programs of one release. Without a release: a module of ours in `modules/`, whose go.mod requires the release. */
interface Programs extends Partial<Release> {
  /**
   * Name for the linker's `-X`, which sets it to the version. Programs that are built outside their own release do not
   * know their version.
   */
  symbol?: string;
  /** Go package by binary name, relative to the module. */
  binaries: Record<string, string>;
}

const MODULES = {
  actionlint: {
    module: "github.com/rhysd/actionlint",
    version: "v1.7.7",
    binaries: { actionlint: "./cmd/actionlint" },
  },
  kubernetes: {
    ...CURRENT_KUBERNETES,
    symbol: "k8s.io/component-base/version.gitVersion",
    binaries: {
      "kube-apiserver": "./cmd/kube-apiserver",
      "kube-controller-manager": "./cmd/kube-controller-manager",
      kubectl: "./cmd/kubectl",
      "kube-scheduler": "./cmd/kube-scheduler",
      kubelet: "./cmd/kubelet",
      "kube-proxy": "./cmd/kube-proxy",
    },
  },
  etcd: { module: "go.etcd.io/etcd/server/v3", version: "v3.6.16", binaries: { etcd: "." } },
  helm: {
    module: "helm.sh/helm/v4",
    version: "v4.3.1",
    symbol: "helm.sh/helm/v4/internal/version.version",
    binaries: { helm: "./cmd/helm" },
  },
  helm3: {
    module: "helm.sh/helm/v3",
    version: "v3.22.0",
    symbol: "helm.sh/helm/v3/internal/version.version",
    binaries: { helm3: "./cmd/helm" },
  },
  containerd: {
    module: "github.com/containerd/containerd/v2",
    version: "v2.4.2",
    symbol: "github.com/containerd/containerd/v2/version.Version",
    binaries: {
      containerd: "./cmd/containerd",
      ctr: "./cmd/ctr",
      "containerd-shim-runc-v2": "./cmd/containerd-shim-runc-v2",
    },
  },
  "cni-plugins": {
    module: "github.com/containernetworking/plugins",
    version: "v1.9.1",
    binaries: {
      bridge: "./plugins/main/bridge",
      loopback: "./plugins/main/loopback",
      "host-local": "./plugins/ipam/host-local",
      portmap: "./plugins/meta/portmap",
    },
  },
  calico: {
    module: "github.com/projectcalico/calico",
    version: "v1.11.0-cni-plugin.0.20250813170300-a0db560f0520",
    instead: {
      // A folder of the repository, without releases. It compiles with this version.
      "github.com/projectcalico/api": "v0.0.0-20240708202104-e3f70b269c2c",
      // v0.11.8 cannot be had from the proxy. It is for Windows only.
      "github.com/Microsoft/hcsshim": "v0.11.7",
    },
    // `calico` is the CNI plugin that creates pods' devices as Felix expects them. It detects from its file name that
    // it is the plugin.
    binaries: { "calico-felix": "./felix/cmd/calico-felix", calico: "./cni-plugin/cmd/calico" },
  },
  coredns: { module: "github.com/coredns/coredns", version: "v1.15.0", binaries: { coredns: "." } },
  pebble: {
    module: "github.com/letsencrypt/pebble/v2",
    version: "v2.10.1",
    binaries: { pebble: "./cmd/pebble", "pebble-challtestsrv": "./cmd/pebble-challtestsrv" },
  },
  // cert-manager's commands are modules that cannot be fetched.
  "cert-manager": {
    symbol: "github.com/cert-manager/cert-manager/pkg/util.AppVersion",
    binaries: {
      "cert-manager-controller": "./controller",
      "cert-manager-webhook": "./webhook",
      "cert-manager-cainjector": "./cainjector",
      "cert-manager-acmesolver": "./acmesolver",
    },
  },
  traefik: { module: "github.com/traefik/traefik/v3", version: "v3.6.12", binaries: { traefik: "./cmd/traefik" } },
  // Caddy's HTTP server and its wrapper for PROXY headers, but nothing else. The build takes 3 minutes of CPU time.
  caddy: { binaries: { caddy: "./program" } },
  "envoy-gateway": {
    module: "github.com/envoyproxy/gateway",
    version: "v1.9.1",
    fetchesGo: true,
    symbol: "github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion",
    binaries: { "envoy-gateway": "./cmd/envoy-gateway" },
  },
  contour: {
    module: "github.com/projectcontour/contour",
    version: "v1.33.8",
    symbol: "github.com/projectcontour/contour/internal/build.Version",
    binaries: { contour: "./cmd/contour" },
  },
  "external-dns": {
    module: "sigs.k8s.io/external-dns",
    version: "v0.23.0",
    fetchesGo: true,
    // The versions that external-dns names cannot be fetched. Nothing of these runs in a test.
    instead: {
      "github.com/civo/civogo": "v0.7.2",
      "github.com/exoscale/egoscale/v3": "v3.1.33",
      "github.com/openshift/api": "v0.0.0-20251015095338-264e80a2b6e7",
      "github.com/openshift/client-go": "v0.0.0-20251015124057-db0dee36e235",
    },
    symbol: "sigs.k8s.io/external-dns/pkg/apis/externaldns.Version",
    binaries: { "external-dns": "." },
  },
} as const satisfies Record<string, Programs>;

type Modules = typeof MODULES;
type ModuleName = keyof Modules;
type BinaryOf<M> = M extends { binaries: infer B } ? keyof B & string : never;
export type BinaryName = { [M in ModuleName]: BinaryOf<Modules[M]> }[ModuleName];

/** Everything that `go build` and the cache need to know about one binary. */
export interface BinarySource {
  name: BinaryName;
  /** The module's name in the cache. */
  module: ModuleName;
  /** Where Go builds: a release, or the folder of a module of ours. */
  origin: Release | string;
  /** The Go package to build, relative to the module. */
  package: string;
  /** Includes the `v`. */
  version: string;
  /** Everything that decides about the binary's source: the release; or the text of our go.mod and main.go. */
  pins: string;
  /** Flags for `go build`. */
  flags: string[];
}

/** How to build `wanted`. */
export function sourceOf(wanted: BinaryName, env: NodeJS.ProcessEnv = process.env): BinarySource {
  const name = wanted === "helm" && env[TEST_HELM] === "3" ? "helm3" : wanted;
  const all = Object.entries<Programs>(MODULES) as [ModuleName, Programs][];
  const [module, programs] = all.find(([, { binaries }]) => name in binaries) ?? [];
  if (module === undefined) throw new Error(`no module builds ${name}`);
  const goPackage = programs?.binaries[name] ?? "";
  // No test depends on the version of kubectl, so one version is enough.
  const chosen = module === "kubernetes" && name !== "kubectl" ? KUBERNETES[env[TEST_KUBERNETES] ?? ""] : undefined;
  const release = chosen ?? releaseOf(module);
  const folder = programs?.module === undefined ? ownFolder(module) : undefined;
  return {
    name,
    module,
    origin: folder ?? release,
    package: goPackage,
    version: release.version,
    pins: folder === undefined ? JSON.stringify(release) : ownText(folder, goPackage),
    // Without inlining and debug information, Helm takes 28% less CPU time to build. The speed of these programs does
    // not matter to the tests.
    flags: ["-trimpath", "-gcflags=all=-l -dwarf=false", `-ldflags=${linkerFlags(programs?.symbol, release.version)}`],
  };
}

function linkerFlags(symbol: string | undefined, version: string): string {
  if (symbol === undefined) return "-s -w";
  const [major, minor] = version.slice(1).split(".");
  const values = [[symbol, version]];
  // Kubernetes also has the parts of its version.
  const parts = symbol.replace(/gitVersion$/, "git");
  if (parts !== symbol) values.push([`${parts}Major`, major ?? ""], [`${parts}Minor`, minor ?? ""]);
  return ["-s", "-w", ...values.map(([name, value]) => `-X ${name}=${value}`)].join(" ");
}

/** The release whose programs are built: the one in the table, or the one that our go.mod requires. */
export function releaseOf(name: ModuleName): Release {
  const { module, version, fetchesGo, instead }: Programs = MODULES[name];
  if (module !== undefined && version !== undefined)
    return { module, version, ...(fetchesGo && { fetchesGo }), ...(instead && { instead }) };
  const [, required, at] = /^require (\S+) (\S+)$/m.exec(readFileSync(join(ownFolder(name), "go.mod"), "utf8")) ?? [];
  if (required === undefined || at === undefined) throw new Error(`modules/${name}/go.mod requires nothing`);
  return { module: required, version: at };
}

function ownFolder(name: ModuleName): string {
  return join(import.meta.dirname, "modules", name);
}

function ownText(folder: string, goPackage: string): string {
  const files = [join(folder, "go.mod"), join(folder, goPackage, "main.go")];
  return files.map((path) => readFileSync(path, "utf8")).join("");
}
