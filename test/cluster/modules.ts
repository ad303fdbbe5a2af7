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

/** How to build the programs of one release. */
interface Programs {
  /** Undefined: a module of ours in `modules/`, whose go.mod requires the release. Its programs are ours. */
  release?: Release;
  /**
   * Names for the linker's `-X`, which sets them to the version. Programs that are built outside their own release do
   * not know their version.
   */
  versionSymbols?: (version: string) => Record<string, string>;
  /** Go package by binary name, relative to the module. */
  binaries: Record<string, string>;
}

const KUBERNETES_VERSION_PACKAGE = "k8s.io/component-base/version";

/**
 * Without inlining and debug information, Helm takes 28% less CPU time to build. The tests use these programs, and
 * their speed does not matter.
 */
const COMPILER_FLAGS = "all=-l -dwarf=false";

const MODULES = {
  actionlint: {
    release: { module: "github.com/rhysd/actionlint", version: "v1.7.7" },
    binaries: { actionlint: "./cmd/actionlint" },
  },
  kubernetes: {
    release: CURRENT_KUBERNETES,
    versionSymbols: (version) => ({
      [`${KUBERNETES_VERSION_PACKAGE}.gitVersion`]: version,
      [`${KUBERNETES_VERSION_PACKAGE}.gitMajor`]: version.slice(1).split(".")[0] ?? "",
      [`${KUBERNETES_VERSION_PACKAGE}.gitMinor`]: version.split(".")[1] ?? "",
    }),
    binaries: {
      "kube-apiserver": "./cmd/kube-apiserver",
      "kube-controller-manager": "./cmd/kube-controller-manager",
      kubectl: "./cmd/kubectl",
      "kube-scheduler": "./cmd/kube-scheduler",
      kubelet: "./cmd/kubelet",
      "kube-proxy": "./cmd/kube-proxy",
    },
  },
  etcd: {
    release: { module: "go.etcd.io/etcd/server/v3", version: "v3.6.16" },
    binaries: { etcd: "." },
  },
  helm: {
    release: { module: "helm.sh/helm/v4", version: "v4.3.1" },
    versionSymbols: (version) => ({ "helm.sh/helm/v4/internal/version.version": version }),
    binaries: { helm: "./cmd/helm" },
  },
  helm3: {
    release: { module: "helm.sh/helm/v3", version: "v3.22.0" },
    versionSymbols: (version) => ({ "helm.sh/helm/v3/internal/version.version": version }),
    binaries: { helm3: "./cmd/helm" },
  },
  containerd: {
    release: { module: "github.com/containerd/containerd/v2", version: "v2.4.2" },
    versionSymbols: (version) => ({ "github.com/containerd/containerd/v2/version.Version": version }),
    binaries: {
      containerd: "./cmd/containerd",
      ctr: "./cmd/ctr",
      "containerd-shim-runc-v2": "./cmd/containerd-shim-runc-v2",
    },
  },
  "cni-plugins": {
    release: { module: "github.com/containernetworking/plugins", version: "v1.9.1" },
    binaries: {
      bridge: "./plugins/main/bridge",
      loopback: "./plugins/main/loopback",
      "host-local": "./plugins/ipam/host-local",
      portmap: "./plugins/meta/portmap",
    },
  },
  calico: {
    release: {
      module: "github.com/projectcalico/calico",
      version: "v1.11.0-cni-plugin.0.20250813170300-a0db560f0520",
      instead: {
        // A folder of the repository, without releases. It compiles with this version.
        "github.com/projectcalico/api": "v0.0.0-20240708202104-e3f70b269c2c",
        // v0.11.8 cannot be had from the proxy. It is for Windows only.
        "github.com/Microsoft/hcsshim": "v0.11.7",
      },
    },
    binaries: {
      "calico-felix": "./felix/cmd/calico-felix",
      // The CNI plugin that creates pods' devices as Felix expects them. It detects from its file name that it is the
      // plugin.
      calico: "./cni-plugin/cmd/calico",
    },
  },
  coredns: {
    release: { module: "github.com/coredns/coredns", version: "v1.15.0" },
    binaries: { coredns: "." },
  },
  pebble: {
    release: { module: "github.com/letsencrypt/pebble/v2", version: "v2.10.1" },
    binaries: { pebble: "./cmd/pebble", "pebble-challtestsrv": "./cmd/pebble-challtestsrv" },
  },
  // cert-manager's commands are modules that cannot be fetched.
  "cert-manager": {
    versionSymbols: (version) => ({ "github.com/cert-manager/cert-manager/pkg/util.AppVersion": version }),
    binaries: {
      "cert-manager-controller": "./controller",
      "cert-manager-webhook": "./webhook",
      "cert-manager-cainjector": "./cainjector",
      "cert-manager-acmesolver": "./acmesolver",
    },
  },
  traefik: {
    release: { module: "github.com/traefik/traefik/v3", version: "v3.6.12" },
    binaries: { traefik: "./cmd/traefik" },
  },
  // Caddy's HTTP server and its wrapper for PROXY headers, but nothing else. The build takes 3 minutes of CPU time.
  caddy: { binaries: { caddy: "./program" } },
  "envoy-gateway": {
    release: { module: "github.com/envoyproxy/gateway", version: "v1.9.1", fetchesGo: true },
    versionSymbols: (version) => ({
      "github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion": version,
    }),
    binaries: { "envoy-gateway": "./cmd/envoy-gateway" },
  },
  contour: {
    release: { module: "github.com/projectcontour/contour", version: "v1.33.8" },
    versionSymbols: (version) => ({ "github.com/projectcontour/contour/internal/build.Version": version }),
    binaries: { contour: "./cmd/contour" },
  },
  "external-dns": {
    release: {
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
    },
    versionSymbols: (version) => ({ "sigs.k8s.io/external-dns/pkg/apis/externaldns.Version": version }),
    binaries: { "external-dns": "." },
  },
} as const satisfies Record<string, Programs>;

type Modules = typeof MODULES;
type BinaryOf<M> = M extends { binaries: infer B } ? keyof B & string : never;

type ModuleName = keyof Modules;
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
  for (const [key, { binaries, versionSymbols, release: usual }] of Object.entries<Programs>(MODULES)) {
    const goPackage = binaries[name];
    if (goPackage === undefined) continue;
    const module = key as ModuleName;
    // No test depends on the version of kubectl, so one version is enough.
    const chosen = module === "kubernetes" && name !== "kubectl" ? KUBERNETES[env[TEST_KUBERNETES] ?? ""] : undefined;
    const release = chosen ?? usual;
    const { version } = release ?? releaseOf(module);
    const symbols = Object.entries(versionSymbols?.(version) ?? {});
    return {
      name,
      module,
      origin: release ?? ownFolder(module),
      package: goPackage,
      version,
      pins: release === undefined ? ownText(module, goPackage) : JSON.stringify(release),
      flags: ["-trimpath", `-gcflags=${COMPILER_FLAGS}`, `-ldflags=${linkerFlags(symbols)}`],
    };
  }
  throw new Error(`no module builds ${name}`);
}

function linkerFlags(symbols: [string, string][]): string {
  return ["-s", "-w", ...symbols.map(([symbol, value]) => `-X ${symbol}=${value}`)].join(" ");
}

/** The release whose programs are built: the one in the table, or the one that our go.mod requires. */
export function releaseOf(name: ModuleName): Release {
  const { release }: Programs = MODULES[name];
  if (release !== undefined) return release;
  const goMod = readFileSync(join(ownFolder(name), "go.mod"), "utf8");
  const [, module, version] = /^require (\S+) (\S+)$/m.exec(goMod) ?? [];
  if (module === undefined || version === undefined) throw new Error(`modules/${name}/go.mod requires nothing`);
  return { module, version };
}

function ownFolder(name: ModuleName): string {
  return join(import.meta.dirname, "modules", name);
}

function ownText(module: ModuleName, goPackage: string): string {
  const folder = ownFolder(module);
  return [join(folder, "go.mod"), join(folder, goPackage, "main.go")]
    .map((path) => readFileSync(path, "utf8"))
    .join("");
}
