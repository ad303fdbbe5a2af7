import assert from "node:assert/strict";
import { test } from "node:test";
import { checkConfig, parseConfig } from "./parse.ts";

test("which DNS domains of the cluster are accepted", () => {
  const accepted = (clusterDomain: string) => checkConfig({ clusterDomain }).config !== undefined;
  const good = ["a", "cluster.local", "cluster.local.", "c-1.local"];
  const bad = ["", ".", ".local", "-a", "a-", "a b", "Cluster.local"];
  assert.deepEqual([good.map(accepted), bad.map(accepted)], [good.map(() => true), bad.map(() => false)]);
});

const target = (name: string, more: object = {}) => ({ name, upstream: { host: "h" }, classes: [name], ...more });
const accepted = (...targets: object[]) => checkConfig({ targets }).config !== undefined;

test("the limits of a target's name, upstream, ports and addresses", () => {
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

test("all targets together may have a thousand ports, but not more", () => {
  const ports = Array.from({ length: 200 }, (_, index) => ({ port: index + 1 }));
  const five = ["a", "b", "c", "d", "e"].map((name) => target(name, { ports }));
  assert.equal(accepted(...five), true);
  const { flaws } = checkConfig({ targets: [...five, target("f", { ports: [{ port: 1 }] })] });
  assert.deepEqual(
    flaws.map(({ path, message }) => [path, message]),
    [[["targets"], "1001 ports in all; at most 1000 are possible"]],
  );
});

test("a target needs an address if all its ports go to a host without a header, and only then", () => {
  const none = { protocol: "none" };
  const of = (more: object) => accepted(target("a", more));
  assert.equal(of({ ports: [{ port: 80, ...none }] }), false);
  assert.equal(of({ ports: [{ port: 80, ...none }, { port: 443 }] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], clusterIPs: ["10.0.0.1"] }), true);
  assert.equal(of({ ports: [{ port: 80, ...none }], upstream: { service: { namespace: "a", name: "b" } } }), true);
});

test("the limits of rules that span several settings", () => {
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

test("a namespace that the webhook excludes cannot opt in by name, and the error says which can", () => {
  const config = { namespace: "own", pods: { excludedNamespaces: ["kube-system"] } };
  const flaws = (...namespaces: string[]) =>
    checkConfig({ ...config, optIn: { namespaces } }).flaws.map(({ path, message }) => [path, message]);
  assert.deepEqual(flaws("cert-manager", "kube-public"), []);
  const others = "are never sent to the webhook; expected a namespace other than kube-system, own";
  assert.deepEqual(flaws("cert-manager", "kube-system", "own"), [
    [["optIn", "namespaces", 1], `pods of kube-system ${others}`],
    [["optIn", "namespaces", 2], `pods of own ${others}`],
  ]);
});

test("the defaults of every section", () => {
  const { targets: _, ...defaults } = parseConfig({});
  assert.deepEqual(defaults, {
    namespace: "switchback-system",
    strict: false,
    discovery: {
      enabled: true,
      protocol: "auto",
      detect: true,
      map: "auto",
      keepSeconds: 86_400,
      maxTargets: 500,
      maxPorts: 2_000,
    },
    policy: {
      allowDomains: [],
      denyDomains: [],
      namespaces: [],
      denyNamespaces: [],
      maxNamesPerNamespace: 250,
      claims: [],
      namespaceAnnotation: false,
      targets: [],
      requireAdmitted: false,
      verifyDns: "auto",
      dnsServers: [],
    },
    sources: {
      ingress: { enabled: true },
      gateway: { enabled: true, requireAccepted: true, listeners: true },
      presets: [],
      custom: [],
      services: {
        enabled: false,
        annotationPrefixes: ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"],
      },
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
    optIn: { namespaces: [] },
    restart: {
      namespaces: [],
      dryRun: false,
      debounceSeconds: 2,
      maxDebounceSeconds: 20,
      minIntervalSeconds: 30,
      maxIntervalSeconds: 3_600,
      dailyBudget: 6,
      vanishedSeconds: 600,
      rolloutSeconds: 600,
      holdAfter: 3,
      holdSeconds: 3_600,
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
    certs: { mode: "self-signed", caDays: 3_650, leafDays: 90, overlapSeconds: 600 },
    log: { level: "info", format: "json" },
  });
});
