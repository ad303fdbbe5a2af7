import { type Limits, type Texts, testSettings } from "#test/fakes/setting-limits.ts";

const PORT = [0, 65_535] as const;
const SECONDS = [0, 2_000_000] as const;
const POSITIVE = ["above 0", undefined] as const;
const COUNT = [1, undefined] as const;

/** The minimum and maximum value of each numeric setting. */
const LIMITS: Limits = {
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
  "certs.caDays": POSITIVE,
  "certs.leafDays": POSITIVE,
  "certs.overlapSeconds": SECONDS,
};

/** Values of text settings: accepted ones and refused ones. */
const TEXTS: Texts = {
  "pods.excludedNamespaces": [
    [[], ["a"], ["a-1"], ["a".repeat(63)]],
    [["a".repeat(64)], ["-a"], ["a-"], ["A"], ["a.b"], [""]],
  ],
  "optIn.namespaces": [
    [[], ["a"], ["cert-manager", "a"]],
    [["a.b"], ["A"], ["*"], [""]],
  ],
  "pods.onChange": [
    ["restart", "live", "none"],
    ["", "never"],
  ],
  "certs.mode": [["self-signed", "cert-manager", "files"], ["none"]],
  "proxy.engine": [["auto", "linux", "portable"], ["epoll"]],
  "proxy.trafficDistribution": [["PreferSameNode", "PreferSameZone", "PreferClose"], ["none"]],
  "discovery.protocol": [["auto", "v1", "v2", "none"], ["v3"]],
  "discovery.map": [["auto", "always"], ["never"]],
  "policy.verifyDns": [["auto", "off", "warn", "enforce"], ["on"]],
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

testSettings(LIMITS, TEXTS);
