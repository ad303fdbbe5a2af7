import { readFileSync } from "node:fs";
import { join } from "node:path";
import { HELM_3, KUBERNETES, type Release } from "./releases.ts";

/** Name of the variable that selects a minor version of `KUBERNETES`. */
export const TEST_KUBERNETES = "TEST_KUBERNETES";
/** Name of the variable that replaces Helm 4 with Helm 3 if its value is `3`. */
export const TEST_HELM = "TEST_HELM";

/** How to build the binaries of one folder in `modules/` (with its own go.mod and go.sum), or of a release. */
interface ModuleSpec {
  /** The Go module whose version in go.mod is the version of these binaries. */
  source: string;
  /**
   * Names for the linker's `-X`, which sets them to the version. Programs that are built outside their own release do
   * not know their version.
   */
  versionSymbols?: (version: string) => Record<string, string>;
  /**
   * The module asks for a newer Go than people may have. Go fetches the version in go.mod, regardless of GOTOOLCHAIN.
   */
  fetchesGo?: true;
  /** The release to build instead of the module in the folder. */
  release?: (env: NodeJS.ProcessEnv, name: string) => Release | undefined;
  /** Go package by binary name. A package that begins with `./` is a folder of ours with a main.go. */
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
    source: "github.com/rhysd/actionlint",
    binaries: { actionlint: "github.com/rhysd/actionlint/cmd/actionlint" },
  },
  kubernetes: {
    source: "k8s.io/kubernetes",
    // No test depends on the version of kubectl, so one version is enough.
    release: (env, name) => (name === "kubectl" ? undefined : KUBERNETES[env[TEST_KUBERNETES] ?? ""]),
    versionSymbols: (version) => ({
      [`${KUBERNETES_VERSION_PACKAGE}.gitVersion`]: version,
      [`${KUBERNETES_VERSION_PACKAGE}.gitMajor`]: version.slice(1).split(".")[0] ?? "",
      [`${KUBERNETES_VERSION_PACKAGE}.gitMinor`]: version.split(".")[1] ?? "",
    }),
    binaries: {
      "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
      "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
      kubectl: "k8s.io/kubernetes/cmd/kubectl",
      "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
      kubelet: "k8s.io/kubernetes/cmd/kubelet",
      "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    },
  },
  etcd: {
    source: "go.etcd.io/etcd/server/v3",
    binaries: { etcd: "go.etcd.io/etcd/server/v3" },
  },
  helm: {
    source: "helm.sh/helm/v4",
    versionSymbols: (version) => ({ "helm.sh/helm/v4/internal/version.version": version }),
    binaries: { helm: "helm.sh/helm/v4/cmd/helm" },
  },
  helm3: {
    source: "helm.sh/helm/v3",
    release: () => HELM_3,
    versionSymbols: (version) => ({ "helm.sh/helm/v3/internal/version.version": version }),
    binaries: { helm3: "helm.sh/helm/v3/cmd/helm" },
  },
  containerd: {
    source: "github.com/containerd/containerd/v2",
    versionSymbols: (version) => ({ "github.com/containerd/containerd/v2/version.Version": version }),
    binaries: {
      containerd: "github.com/containerd/containerd/v2/cmd/containerd",
      ctr: "github.com/containerd/containerd/v2/cmd/ctr",
      "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    },
  },
  "cni-plugins": {
    source: "github.com/containernetworking/plugins",
    binaries: {
      bridge: "github.com/containernetworking/plugins/plugins/main/bridge",
      loopback: "github.com/containernetworking/plugins/plugins/main/loopback",
      "host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
      portmap: "github.com/containernetworking/plugins/plugins/meta/portmap",
    },
  },
  calico: {
    source: "github.com/projectcalico/calico",
    binaries: {
      "calico-felix": "github.com/projectcalico/calico/felix/cmd/calico-felix",
      // The CNI plugin that creates pods' devices as Felix expects them. It detects from its file name that it is the
      // plugin.
      calico: "github.com/projectcalico/calico/cni-plugin/cmd/calico",
    },
  },
  coredns: {
    source: "github.com/coredns/coredns",
    binaries: { coredns: "github.com/coredns/coredns" },
  },
  pebble: {
    source: "github.com/letsencrypt/pebble/v2",
    binaries: {
      pebble: "github.com/letsencrypt/pebble/v2/cmd/pebble",
      "pebble-challtestsrv": "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv",
    },
  },
  "cert-manager": {
    source: "github.com/cert-manager/cert-manager",
    versionSymbols: (version) => ({ "github.com/cert-manager/cert-manager/pkg/util.AppVersion": version }),
    // Our own commands, because cert-manager's commands are modules that cannot be fetched.
    binaries: {
      "cert-manager-controller": "./controller",
      "cert-manager-webhook": "./webhook",
      "cert-manager-cainjector": "./cainjector",
      "cert-manager-acmesolver": "./acmesolver",
    },
  },
  traefik: {
    source: "github.com/traefik/traefik/v3",
    binaries: { traefik: "github.com/traefik/traefik/v3/cmd/traefik" },
  },
  // Our program has Caddy's HTTP server and its wrapper for PROXY headers, but nothing else. Its build takes 3 minutes
  // of CPU time.
  caddy: {
    source: "github.com/caddyserver/caddy/v2",
    binaries: { caddy: "./program" },
  },
  "envoy-gateway": {
    source: "github.com/envoyproxy/gateway",
    versionSymbols: (version) => ({
      "github.com/envoyproxy/gateway/internal/cmd/version.envoyGatewayVersion": version,
    }),
    fetchesGo: true,
    binaries: { "envoy-gateway": "github.com/envoyproxy/gateway/cmd/envoy-gateway" },
  },
  contour: {
    source: "github.com/projectcontour/contour",
    versionSymbols: (version) => ({ "github.com/projectcontour/contour/internal/build.Version": version }),
    binaries: { contour: "github.com/projectcontour/contour/cmd/contour" },
  },
  // Separate from `external-dns`, so that its definitions can be read with the Go that is installed.
  "external-dns-program": {
    source: "sigs.k8s.io/external-dns",
    versionSymbols: (version) => ({ "sigs.k8s.io/external-dns/pkg/apis/externaldns.Version": version }),
    fetchesGo: true,
    binaries: { "external-dns": "sigs.k8s.io/external-dns" },
  },
} as const satisfies Record<string, ModuleSpec>;

type Modules = typeof MODULES;
type BinaryOf<M> = M extends { binaries: infer B } ? keyof B & string : never;

type ModuleName = keyof Modules;
export type BinaryName = { [M in ModuleName]: BinaryOf<Modules[M]> }[ModuleName];

/** Everything that `go build` and the cache need to know about one binary. */
export interface BinarySource {
  name: BinaryName;
  module: ModuleName;
  /** The folder with go.mod and go.sum. */
  folder: string;
  /** The Go package to build. */
  package: string;
  /** Includes the `v`. */
  version: string;
  /** The binary's source: the text of go.mod and go.sum, and of our main.go if there is one; or the release. */
  pins: string;
  /** Flags for `go build`. */
  flags: string[];
  fetchesGo: boolean;
  /** The release to build, instead of the module in `folder`. */
  release?: Release;
}

/** How to build `wanted`. The versions are in `modules/<module>/go.mod` and in `releases.ts`. */
export function sourceOf(wanted: BinaryName, env: NodeJS.ProcessEnv = process.env): BinarySource {
  const name = wanted === "helm" && env[TEST_HELM] === "3" ? "helm3" : wanted;
  for (const [module, spec] of Object.entries<ModuleSpec>(MODULES)) {
    const goPackage = spec.binaries[name];
    if (goPackage === undefined) continue;
    const release = spec.release?.(env, name);
    const folder = join(import.meta.dirname, "modules", module);
    const { version, pins } = release === undefined ? pinned(spec, folder, goPackage) : released(release);
    const symbols = Object.entries(spec.versionSymbols?.(version) ?? {});
    return {
      name,
      module: module as ModuleName,
      folder,
      package: goPackage,
      version,
      pins,
      flags: ["-trimpath", `-gcflags=${COMPILER_FLAGS}`, `-ldflags=${linkerFlags(symbols)}`],
      fetchesGo: spec.fetchesGo ?? false,
      ...(release && { release }),
    };
  }
  throw new Error(`no module builds ${name}`);
}

function linkerFlags(symbols: [string, string][]): string {
  return ["-s", "-w", ...symbols.map(([symbol, value]) => `-X ${symbol}=${value}`)].join(" ");
}

interface Pins {
  version: string;
  pins: string;
}

function pinned({ source }: ModuleSpec, folder: string, goPackage: string): Pins {
  const goMod = readFileSync(join(folder, "go.mod"), "utf8");
  const pins = goMod + readFileSync(join(folder, "go.sum"), "utf8") + ownSource(folder, goPackage);
  return { version: requiredVersion(goMod, source), pins };
}

function released(release: Release): Pins {
  return { version: release.version, pins: JSON.stringify(release) };
}

function ownSource(folder: string, goPackage: string): string {
  return goPackage.startsWith("./") ? readFileSync(join(folder, goPackage, "main.go"), "utf8") : "";
}

function requiredVersion(goMod: string, module: string): string {
  const line = goMod.split("\n").find((text) => text.replace(/^\s*(require )?/, "").startsWith(`${module} v`));
  const version = line?.split(`${module} `)[1]?.split(" ")[0];
  if (version === undefined) throw new Error(`go.mod does not require ${module}`);
  return version;
}
