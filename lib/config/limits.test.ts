import assert from "node:assert/strict";
import { test } from "node:test";
import { validate } from "#lib/errors/validation.ts";
import { checkConfig, parseConfig } from "./parse.ts";
import { configSchema } from "./schema.ts";
import { listSettings } from "./settings.ts";

const PORT = [0, 65_535] as const;
const SECONDS = [0, 2_000_000] as const;
const POSITIVE = ["above 0", undefined] as const;
const COUNT = [1, undefined] as const;

/** The least and the greatest value of each setting that is a number. */
const LIMITS: Readonly<Record<string, readonly [least: number | "above 0", greatest: number | undefined]>> = {
  "discovery.keepSeconds": SECONDS,
  "discovery.maxTargets": [1, 1_000],
  "discovery.maxPorts": [1, 3_000],
  "policy.maxNamesPerNamespace": COUNT,
  "sources.discoverySeconds": [1, 3_600],
  "sources.removedKindSeconds": SECONDS,
  "map.vanishSeconds": SECONDS,
  "map.guardNames": COUNT,
  "map.guardHoldSeconds": SECONDS,
  "map.publicationsPerSecond": POSITIVE,
  "map.bytesPerSecond": POSITIVE,
  "inject.maxNames": [1, 5_000],
  "inject.warnNames": COUNT,
  "pods.agentSilenceSeconds": SECONDS,
  "restart.debounceSeconds": SECONDS,
  "restart.maxDebounceSeconds": SECONDS,
  "restart.minIntervalSeconds": SECONDS,
  "restart.maxIntervalSeconds": SECONDS,
  "restart.dailyBudget": [0, undefined],
  "restart.vanishedSeconds": SECONDS,
  "restart.revertSeconds": SECONDS,
  "restart.rolloutSeconds": SECONDS,
  "restart.holdAfter": COUNT,
  "restart.holdSeconds": SECONDS,
  "podDns.port": [1, 65_535],
  "podDns.healthPort": PORT,
  "podDns.coreDnsHealthPort": [1, 65_535],
  "podDns.coreDnsReadyPort": [1, 65_535],
  "podDns.coreDnsMetricsPort": [1, 65_535],
  "podDns.ttlSeconds": [1, 2_000_000],
  "podDns.reloadMs": [50, 60_000],
  "publishers.healthPort": PORT,
  "publishers.checkSeconds": [1, 2_000_000],
  "publishers.minIntervalSeconds": SECONDS,
  "publishers.answerSeconds": [10, 2_000_000],
  "publishers.corednsImport.ttlSeconds": [1, 2_000_000],
  "publishers.coredns.ttlSeconds": [1, 2_000_000],
  "publishers.externalDns.ttlSeconds": [1, 86_400],
  "publishers.externalDns.removeWaitSeconds": [0, 600],
  "webhook.port": PORT,
  "webhook.healthPort": PORT,
  "webhook.maxBodyBytes": [1_024, undefined],
  "controller.port": PORT,
  "controller.leaseSeconds": [2, 86_400],
  "controller.renewDeadlineSeconds": COUNT,
  "controller.retrySeconds": [0.1, undefined],
  "proxy.workers": [0, 64],
  "proxy.healthPort": PORT,
  "proxy.maxConnections": COUNT,
  "proxy.maxConnectionsPerSource": COUNT,
  "proxy.connectTimeoutSeconds": SECONDS,
  "proxy.idleTimeoutSeconds": SECONDS,
  "proxy.halfClosedTimeoutSeconds": SECONDS,
  "proxy.drainSeconds": SECONDS,
  "proxy.keepaliveSeconds": [0, 32_767],
  "proxy.resolveSeconds": SECONDS,
  "agent.healthPort": PORT,
  "agent.sweepSeconds": [1, 2_000_000],
  "agent.renewSeconds": [1, 2_000_000],
  "certs.caDays": POSITIVE,
  "certs.leafDays": POSITIVE,
  "certs.overlapSeconds": SECONDS,
};

/** Whether the section of a setting accepts a value. Rules that span settings are not applied. */
function accepts(path: string, value: unknown): boolean {
  const keys = path.split(".");
  const document = keys.reduceRight((inner, key) => ({ [key]: inner }), value);
  return validate(configSchema, document).flaws.length === 0;
}

test("every setting that is a number has limits here", () => {
  const numbers = listSettings().filter(({ type }) => type === "integer" || type === "number");
  assert.deepEqual(
    numbers.map(({ path }) => path),
    Object.keys(LIMITS),
  );
});

for (const [path, [least, greatest]] of Object.entries(LIMITS)) {
  test(`${path} is ${least} to ${greatest ?? "any number"}`, () => {
    if (least === "above 0") {
      assert.deepEqual([accepts(path, 0), accepts(path, 0.5)], [false, true]);
    } else {
      assert.deepEqual(
        [accepts(path, least), accepts(path, least - 0.01), accepts(path, least - 1)],
        [true, false, false],
      );
    }
    if (greatest === undefined) assert.equal(accepts(path, 1_000_000_000), true);
    else assert.deepEqual([accepts(path, greatest), accepts(path, greatest + 1)], [true, false]);
  });
}

/** Values of settings that are texts: accepted and refused. */
const TEXTS: Readonly<Record<string, readonly [good: readonly unknown[], bad: readonly unknown[]]>> = {
  "pods.excludedNamespaces": [
    [[], ["a"], ["a-1"], ["a".repeat(63)]],
    [["a".repeat(64)], ["-a"], ["a-"], ["A"], ["a.b"], [""]],
  ],
  "pods.onChange": [
    ["restart", "live", "none"],
    ["", "never"],
  ],
  "agent.namespace": [["agents"], ["Agents"]],
  "agent.node": [["n", undefined], [""]],
  "agent.kubeletRoot": [
    ["/var/lib/kubelet", "/k", "/a/..b", "/a/b..", "/.a"],
    ["", "/", "/a/", "a/b", "/a/..", "/./a", "/a/../b", "/a//b", "/a b"],
  ],
  "podDns.upstream": [
    ["/etc/resolv.conf", "192.0.2.53", "192.0.2.53:5353", "[2001:db8::53]:53"],
    ["", "a b", "a;b", "a\nb", "a{b", '"a"'],
  ],
  "podDns.directory": [
    ["/run/switchback-dns", "/d"],
    ["", "/", "/d/", "d", "/a b"],
  ],
  "nodeHosts.names": [
    [
      [],
      ["*"],
      ["*.example.com", "registry.example.com"],
      Array.from({ length: 64 }, (_, index) => `n${index}.example.com`),
    ],
    [
      ["example"],
      ["a.*.com"],
      ["A.com"],
      ["a,b.com"],
      Array.from({ length: 65 }, (_, index) => `n${index}.example.com`),
    ],
  ],
  "nodeHosts.hostPath": [
    ["/etc/hosts", "/a"],
    ["", "/", "etc/hosts", "/etc/../hosts", "/etc/hosts/", "/a b"],
  ],
  "nodeHosts.path": [["/run/hosts"], ["", "/", "hosts", "/run/./hosts"]],
  "publishers.externalDns.kind": [["DNSEndpoint", "Service"], ["Ingress"]],
  "publishers.corednsImport.key": [
    ["a.server", "A_b-c"],
    ["", "a/b", "a b", "a".repeat(254)],
  ],
  "publishers.coredns.configMap": [
    ["coredns", "a.b-c"],
    ["", "A", "a/b", "-a"],
  ],
  "certs.mode": [["self-signed", "cert-manager", "files"], ["none"]],
  "proxy.engine": [["auto", "linux", "portable"], ["epoll"]],
  "proxy.trafficDistribution": [["PreferSameNode", "PreferSameZone", "PreferClose"], ["none"]],
  "discovery.protocol": [["v1", "v2", "none"], ["v3"]],
  "discovery.map": [["auto", "always"], ["never"]],
  "policy.verifyDns": [["off", "warn", "enforce"], ["on"]],
  "policy.dnsServers": [
    [["10.96.0.10"], ["10.96.0.10:53"], ["[fd00::a]:53"], ["[fd00::a]"]],
    [["dns.example.com"], ["fd00::a"], ["10.96.0.10:"], ["10.96.0.10:x"], [" 10.96.0.10"]],
  ],
  "policy.allowDomains": [
    [["*"], ["*.example.com"], ["a.example.com"], ["a-b.example.com"]],
    [["example"], ["a.*.com"], ["*.*"], ["*a.com"], [".a.com"], ["a.com."], ["a_b.com"], ["A.com"], ["-a.com"]],
  ],
  "policy.claims": [
    [[{ namespaces: ["*"], domains: ["*"] }], [{ namespaces: ["a"], domains: ["a.example.com"] }]],
    [
      [{ namespaces: [], domains: ["*"] }],
      [{ namespaces: ["*"], domains: [] }],
      [{ namespaces: ["a*"], domains: ["*"] }],
      [{ namespaces: ["a"], domains: ["*"], more: 1 }],
    ],
  ],
};
for (const [path, [good, bad]] of Object.entries(TEXTS)) {
  test(`what ${path} accepts and refuses`, () => {
    for (const value of good) assert.equal(accepts(path, value), true, JSON.stringify(value));
    for (const value of bad) assert.equal(accepts(path, value), false, JSON.stringify(value));
  });
}

test("the DNS domain of the cluster", () => {
  const accepted = (clusterDomain: string) => checkConfig({ clusterDomain }).config !== undefined;
  const good = ["a", "cluster.local", "cluster.local.", "c-1.local"];
  const bad = ["", ".", ".local", "-a", "a-", "a b", "Cluster.local"];
  assert.deepEqual([good.map(accepted), bad.map(accepted)], [good.map(() => true), bad.map(() => false)]);
});

const target = (name: string, more: object = {}) => ({ name, upstream: { host: "h" }, classes: [name], ...more });
const accepted = (...targets: object[]) => checkConfig({ targets }).config !== undefined;

test("a target's name, upstream, ports and addresses at their limits", () => {
  const ports = (count: number) => Array.from({ length: count }, (_, index) => ({ port: index + 1 }));
  assert.deepEqual([accepted(target("a".repeat(52))), accepted(target("a".repeat(53)))], [true, false]);
  for (const name of ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"])
    assert.equal(accepted(target(name)), false, name);
  assert.deepEqual(
    [accepted(target("a", { ports: ports(200) })), accepted(target("a", { ports: ports(201) }))],
    [true, false],
  );
  for (const [port, good] of [
    [0, false],
    [1, true],
    [65_535, true],
    [65_536, false],
  ] as const) {
    for (const key of ["port", "upstreamPort", "listenPort"]) {
      assert.equal(accepted(target("a", { ports: [{ port: 80, [key]: port }] })), good, `${key} ${port}`);
    }
  }
  const clusterIPs = (...list: string[]) => accepted(target("a", { clusterIPs: list }));
  assert.deepEqual(
    [clusterIPs("10.0.0.1", "fd00::1"), clusterIPs("fd00::1", "fd00::2"), clusterIPs("a")],
    [true, false, false],
  );
  assert.equal(accepted(target("a", { classes: [""] })), false);
  for (const [host, good] of [
    ["a_b.example.com.", true],
    ["", false],
    ["a/b", false],
    ["/a", false],
    ["a:1", false],
    ["::1", true],
  ] as const) {
    assert.equal(accepted(target("a", { upstream: { host } })), good, host);
  }
});

test("a thousand ports of all targets together, and no more", () => {
  const ports = Array.from({ length: 200 }, (_, index) => ({ port: index + 1 }));
  const five = ["a", "b", "c", "d", "e"].map((name) => target(name, { ports }));
  assert.equal(accepted(...five), true);
  const { flaws } = checkConfig({ targets: [...five, target("f", { ports: [{ port: 1 }] })] });
  assert.deepEqual(
    flaws.map(({ path, message }) => [path, message]),
    [[["targets"], "1001 ports in all; at most 1000 are possible"]],
  );
});

test("an address is needed where every port is relayed without a header to a host, and only there", () => {
  const none = { protocol: "none" };
  const of = (more: object) => accepted(target("a", more));
  assert.equal(of({ ports: [{ port: 80, ...none }] }), false);
  assert.equal(of({ ports: [{ port: 80, ...none }, { port: 443 }] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], clusterIPs: ["10.0.0.1"] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], upstream: { service: { namespace: "a", name: "b" } } }), true);
});

test("the rules that span settings, at their limits", () => {
  const valid = (config: object) => checkConfig(config).config !== undefined;
  const lease = (leaseSeconds: number, renewDeadlineSeconds: number, retrySeconds: number) =>
    valid({ controller: { leaseSeconds, renewDeadlineSeconds, retrySeconds } });
  assert.deepEqual(
    [lease(15, 12, 9.9), lease(15, 12, 10), lease(12, 12, 2), lease(12.1, 12, 2)],
    [true, false, false, true],
  );
  const interval = (minIntervalSeconds: number) => valid({ restart: { minIntervalSeconds, maxIntervalSeconds: 60 } });
  assert.deepEqual([interval(60), interval(60.1)], [true, false]);
  const files = { mode: "files", certFile: "a", keyFile: "b" };
  const certs = (more: object) => valid({ certs: { ...files, ...more } });
  assert.deepEqual([certs({}), certs({ keyFile: undefined }), certs({ certFile: undefined })], [true, false, false]);
  assert.equal(certs({ mode: "cert-manager", keyFile: undefined, certFile: undefined }), true);
});

test("the defaults of every section", () => {
  const { targets: _, ...defaults } = parseConfig({});
  assert.deepEqual(defaults, {
    namespace: "switchback-system",
    strict: false,
    discovery: { enabled: true, protocol: "v1", map: "auto", keepSeconds: 86_400, maxTargets: 500, maxPorts: 2_000 },
    policy: {
      allowDomains: [],
      denyDomains: [],
      namespaces: [],
      denyNamespaces: [],
      maxNamesPerNamespace: 250,
      claims: [],
      namespaceAnnotation: false,
      requireAdmitted: false,
      verifyDns: "warn",
      dnsServers: [],
    },
    sources: {
      ingress: { enabled: true },
      gateway: { enabled: true, requireAccepted: true, listeners: true },
      presets: [],
      custom: [],
      services: { enabled: false },
      discoverySeconds: 15,
      removedKindSeconds: 3_600,
    },
    map: {
      vanishSeconds: 60,
      guardNames: 10,
      guardHoldSeconds: 300,
      publicationsPerSecond: 2,
      bytesPerSecond: 200_000,
    },
    inject: { maxNames: 500, warnNames: 200 },
    pods: {
      via: "hosts",
      onChange: "restart",
      excludedNamespaces: ["kube-system", "kube-node-lease", "kube-public"],
      agentSilenceSeconds: 600,
    },
    restart: {
      namespaces: [],
      dryRun: false,
      debounceSeconds: 2,
      maxDebounceSeconds: 20,
      minIntervalSeconds: 30,
      maxIntervalSeconds: 3_600,
      dailyBudget: 6,
      vanishedSeconds: 600,
      revertSeconds: 300,
      rolloutSeconds: 600,
      holdAfter: 3,
      holdSeconds: 3_600,
    },
    podDns: {
      enabled: false,
      resolvers: ["switchback-dns-a", "switchback-dns-b"],
      address: "::",
      port: 1_053,
      healthPort: 8_084,
      coreDnsHealthPort: 8_085,
      coreDnsReadyPort: 8_086,
      coreDnsMetricsPort: 9_153,
      upstream: "/etc/resolv.conf",
      directory: "/run/switchback-dns",
      ttlSeconds: 5,
      revision: "none",
      reloadMs: 100,
      resolvConf: "/etc/resolv.conf",
    },
    publishers: {
      address: "::",
      healthPort: 8_087,
      checkSeconds: 30,
      minIntervalSeconds: 15,
      answerSeconds: 300,
      corednsImport: {
        enabled: false,
        namespace: "kube-system",
        configMap: "coredns-custom",
        key: "switchback.server",
        corefile: { configMap: "coredns", key: "Corefile" },
        ttlSeconds: 5,
      },
      coredns: {
        enabled: false,
        namespace: "kube-system",
        configMap: "coredns",
        key: "Corefile",
        ttlSeconds: 5,
      },
      externalDns: {
        enabled: false,
        kind: "DNSEndpoint",
        ttlSeconds: 60,
        labels: {},
        annotations: {},
        recordLabels: {},
        removeWaitSeconds: 120,
      },
    },
    webhook: { address: "::", port: 8_443, healthPort: 8_081, maxBodyBytes: 3_145_728 },
    controller: { address: "::", port: 8_080, leaseSeconds: 15, renewDeadlineSeconds: 10, retrySeconds: 2 },
    proxy: {
      engine: "auto",
      workers: 0,
      v2Checksum: false,
      v2UniqueId: false,
      selector: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "proxy" },
      address: "::",
      healthPort: 8_082,
      maxConnections: 10_000,
      maxConnectionsPerSource: 1_000,
      connectTimeoutSeconds: 5,
      idleTimeoutSeconds: 3_600,
      halfClosedTimeoutSeconds: 60,
      drainSeconds: 30,
      keepaliveSeconds: 60,
      resolveSeconds: 30,
    },
    agent: {
      enabled: false,
      namespace: "switchback-agent",
      kubeletRoot: "/var/lib/kubelet",
      confine: true,
      address: "::",
      healthPort: 8_083,
      sweepSeconds: 30,
      renewSeconds: 30,
    },
    nodeHosts: { names: [], remove: false, hostPath: "/etc/hosts", path: "/run/switchback-node/hosts" },
    certs: { mode: "self-signed", caDays: 3_650, leafDays: 90, overlapSeconds: 600 },
    log: { level: "info", format: "json" },
  });
});
