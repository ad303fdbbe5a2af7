import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { fc } from "#test/property.ts";
import type { ConfigInput } from "./load.ts";
import { loadConfig } from "./load.ts";
import { parseConfig } from "./parse.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "switchback-"));
const FILE = join(FOLDER, "switchback.yaml");
after(() => rmSync(FOLDER, { recursive: true }));

/**
 * Returns the lines of the error, with the file's path shortened to its name. Empty if the configuration is accepted.
 */
async function faults(input: ConfigInput, text?: string): Promise<string[]> {
  if (text !== undefined) writeFileSync(FILE, text);
  try {
    await loadConfig({ ...input, file: text === undefined ? input.file : FILE });
    return [];
  } catch (error) {
    assert.ok(error instanceof SwitchbackError && error.code === "config-invalid", String(error));
    return error.message.replaceAll(FILE, "switchback.yaml").split("\n");
  }
}

const UPSTREAM = "expected `service: {namespace, name}` or `host: name-or-address`, without a port";
const GLOB =
  "must be a name (`api.example.com`), a wildcard for all names below one (`*.example.com`, at any depth) or `*`";
const LABEL = "must be a lower-case RFC 1123 label";

const BAD: ReadonlyArray<readonly [text: string, ...expected: string[]]> = [
  [
    "optin: 1",
    "optin: unknown setting; accepted are namespace, strict, address, clusterDomain, targets, discovery, policy, " +
      "sources, map, inject, pods, optIn, restart, webhook, controller, proxy, certs, log",
  ],
  ["sources: {ingress: {enable: true}}", "sources.ingress.enable: unknown setting; accepted are enabled"],
  ["proxy: 5", "proxy: must be a map, not a number"],
  ["policy:", "policy: must be a map, not null"],
  ["namespace: Switchback_System", `namespace: ${LABEL}`],
  ["clusterDomain: Cozy.Local", "clusterDomain: must be a lower-case DNS domain, such as `cluster.local`"],
  ["webhook: {port: '8443'}", "webhook.port: must be a number, not a string"],
  ["proxy: {idleTimeoutSeconds: 1.0e+12}", "proxy.idleTimeoutSeconds: must be at most 2000000"],
  ["proxy: {selector: {a: 5}}", "proxy.selector.a: must be a string, not a number"],
  ["log: {level: loud}", 'log.level: must be one of "trace", "debug", "info", "warn", "error"'],
  ["certs: {mode: files, certFile: a}", "certs: mode files requires certFile and keyFile"],
  [
    "policy: {allowDomains: [local, EXAMPLE.com, 1.2.3.4, '*.*.x', 'a b', '*.com']}",
    ...[0, 1, 2, 3, 4].map((index) => `policy.allowDomains[${index}]: ${GLOB}`),
  ],
  ["targets: nginx", "targets: must be a list, not a string"],
  ["targets: [{name: A}]", `targets[0].name: ${LABEL}`, "targets[0].upstream: is missing"],
  [
    "targets: [{name: webhook, upstream: {host: h}}]",
    "targets[0].name: must not be controller, webhook, proxy, agent, dns-a, dns-b: these Services are Switchback's own",
  ],
  ["targets: [{name: a, upstream: {service: {name: b}}}]", `targets[0].upstream: ${UPSTREAM}`],
  [
    "targets: [{name: a, upstream: {host: 'lb.example.com:80'}}]",
    "targets[0].upstream.host: must not have a port; set ports under `ports`",
  ],
  ["targets: [{name: a, upstream: {host: 'a b'}}]", "targets[0].upstream.host: must be a host name or an IP address"],
  [
    "targets: [{name: a, upstream: {host: h}, ports: [{port: 0, protocol: v3, foo: 1}]}]",
    "targets[0].ports[0].port: must be at least 1",
    'targets[0].ports[0].protocol: must be one of "auto", "v1", "v2", "none"',
    "targets[0].ports[0].foo: unknown setting; accepted are port, upstreamPort, protocol, listenPort",
  ],
  ["targets: [{name: a, upstream: {host: h}, ports: []}]", "targets[0].ports: must not be empty"],
  [
    "targets: [{name: a, upstream: {host: h}, ports: [{port: 80}, {port: 80}]}]",
    "targets[0].ports[1].port: targets[0].ports[0].port is the same",
  ],
  [
    "targets: [{name: a, classes: [x], upstream: {host: h}, ports: [{port: 80, listenPort: 9000}]}, {name: b, " +
      "classes: [y], upstream: {host: h}, ports: [{port: 80, listenPort: 9000}]}]",
    "targets[1].ports[0].listenPort: targets[0].ports[0].listenPort is the same",
  ],
  [
    "targets: [{name: a, upstream: {host: h}, clusterIPs: [fe80::1%eth0]}]",
    "targets[0].clusterIPs[0]: must be an IPv4 or IPv6 address, without a zone",
  ],
  [
    "targets: [{name: a, upstream: {host: h}, clusterIPs: [10.0.0.1, 10.0.0.2]}]",
    "targets[0].clusterIPs: must contain at most one IPv4 and one IPv6 address",
  ],
  [
    "targets: [{name: a, upstream: {host: h}, ports: [{port: 80, protocol: none}]}]",
    "targets[0].clusterIPs: with protocol none on all ports, set the upstream to a Service, or set the addresses " +
      "to map to",
  ],
  [
    "targets: [{name: a, classes: [x], upstream: {host: h}}, {name: a, classes: [x], upstream: {host: h}}]",
    "targets[1].name: targets[0].name is the same",
    "targets[1].classes[0]: targets[0].classes[0] is the same",
  ],
  [
    "targets: [{name: a, upstream: {host: h}}, {name: b, classes: [x], upstream: {host: h}}]",
    "targets[0].classes: with several targets, each must list its ingress classes",
  ],
];
for (const [text, ...expected] of BAD) {
  test(`${text}`, async () =>
    assert.deepEqual(
      await faults({}, text),
      expected.map((line) => `switchback.yaml: ${line}`),
    ));
}

const NO_MAP = "switchback.yaml: expected a map of sections, such as `targets:` and `policy:`";
const UNREADABLE: ReadonlyArray<readonly [what: string, text: string, expected: string]> = [
  ["a list", "- a", NO_MAP],
  ["text", "just text", NO_MAP],
  [
    "not YAML",
    "a: [",
    "switchback.yaml: is not valid YAML: Flow sequence in block collection must be sufficiently indented and end " +
      "with a ] at line 1, column 5",
  ],
  [
    "two documents",
    "log: {}\n---\nlog: {}\n",
    "switchback.yaml: is not valid YAML: Source contains multiple documents at line 2, column 1",
  ],
];
for (const [what, text, expected] of UNREADABLE) {
  test(`the file is ${what}`, async () => assert.deepEqual(await faults({}, text), [expected]));
}

test("a missing file and a file with an alias bomb are reported, not processed", async () => {
  assert.deepEqual(await faults({ file: "/nowhere/switchback.yaml" }), ["/nowhere/switchback.yaml: cannot be read"]);
  const level = (n: number) =>
    `l${n}: &l${n} [${Array(10)
      .fill(`*l${n - 1}`)
      .join(", ")}]\n`;
  const bomb = `l0: &l0 [x]\n${[1, 2, 3, 4, 5, 6, 7, 8, 9].map(level).join("")}`;
  assert.deepEqual(await faults({}, bomb), ["switchback.yaml: cannot be read"]);
});

for (const text of ["", "# nothing\n", "{}", "null"]) {
  test(`a file of ${JSON.stringify(text)} gives the defaults`, async () => {
    writeFileSync(FILE, text);
    assert.deepEqual(await loadConfig({ file: FILE }), { config: parseConfig({}), warnings: [] });
  });
}

const LATER =
  "log: {level: warn, colour: red}\ntargets: [{name: a, upstream: {host: h}, ports: [{port: 80, tls: x}]}]\n";

test("a component ignores unknown settings of the file and warns of each", async () => {
  writeFileSync(FILE, `${LATER}later: {a: 1}\n`);
  const { config, warnings } = await loadConfig({ file: FILE, unknown: "warn" });
  assert.deepEqual([config.log, config.targets[0]?.ports.length], [{ level: "warn" }, 1]);
  assert.deepEqual(
    warnings,
    ["targets[0].ports[0].tls", "log.colour", "later"].map(
      (path) => `${FILE}: ${path} is not a setting of this release; it is ignored`,
    ),
  );
});

test("known settings are still checked, and strict: true refuses unknown ones", async () => {
  assert.deepEqual(await faults({ unknown: "warn" }, "later: 1\nlog: {level: loud}\n"), [
    'switchback.yaml: log.level: must be one of "trace", "debug", "info", "warn", "error"',
  ]);
  assert.deepEqual(await faults({ unknown: "warn" }, `strict: true\n${LATER}`), [
    "switchback.yaml: targets[0].ports[0].tls: unknown setting; accepted are port, upstreamPort, protocol, listenPort",
    "switchback.yaml: log.colour: unknown setting; accepted are level",
  ]);
  assert.deepEqual((await faults({ unknown: "warn", set: ["later=1"] }, "")).length, 1, "a flag is this program's own");
});

test("--set overrides the file, and a value has the type of its setting", async () => {
  writeFileSync(FILE, "proxy: {maxConnections: 1, healthPort: 1}\nwebhook: {port: 1}\nnamespace: file\n");
  const { config, warnings } = await loadConfig({
    file: FILE,
    set: [
      "webhook.port=2",
      "webhook.port=3",
      "proxy.maxConnections=2",
      "proxy.address=::",
      'certs.certFile="123"',
      "sources.ingress.enabled=false",
      "policy.denyDomains=[a.example.com, '*.example.org']",
      "proxy.selector={a: b=c}",
      "targets=[{name: t, upstream: {host: h}}]",
      "log.level=debug",
    ],
  });
  assert.deepEqual(warnings, []);
  assert.equal(config.namespace, "file");
  assert.deepEqual([config.proxy.healthPort, config.proxy.maxConnections, config.webhook.port], [1, 2, 3]);
  assert.deepEqual([config.proxy.address, config.certs.certFile], ["::", "123"]);
  assert.equal(config.sources.ingress.enabled, false);
  assert.deepEqual(config.policy.denyDomains, ["a.example.com", "*.example.org"]);
  assert.deepEqual(config.proxy.selector, { a: "b=c" });
  assert.equal(config.targets[0]?.name, "t");
  assert.equal(config.log.level, "debug");
});

test("overrides do not change the parsed file: two loads of one file agree", async () => {
  writeFileSync(FILE, "proxy: {healthPort: 1}\n");
  await loadConfig({ file: FILE, set: ["proxy.healthPort=2"] });
  assert.equal((await loadConfig({ file: FILE })).config.proxy.healthPort, 1);
});

const OVERRIDES: ReadonlyArray<readonly [set: readonly string[], expected: string]> = [
  [["webhook.port=x"], "--set webhook.port: webhook.port: must be a number, not a string"],
  [["webhook.port="], "--set webhook.port: webhook.port: must be a number, not a string"],
  [["certs.certFile=123"], "--set certs.certFile: certs.certFile: must be a string, not a number"],
  [["webhook=1"], "--set webhook: webhook: must be a map, not a number"],
  [["webhook.port"], "--set webhook.port: expected section.setting=VALUE"],
  [["targets[0].name=a"], "--set targets[0].name=a: expected section.setting=VALUE"],
  [["webhook.port=1", "webhook.port.x=1"], "--set webhook.port.x: port is not a map"],
  [["log.__proto__.x=1"], "--set log.__proto__.x=1: expected section.setting=VALUE"],
  [["webhook.port=0.5"], "--set webhook.port: webhook.port: must be a whole number"],
  [["log.level=loud"], '--set log.level: log.level: must be one of "trace", "debug", "info", "warn", "error"'],
  [["policy.allowDomains=[local]"], `--set policy.allowDomains: policy.allowDomains[0]: ${GLOB}`],
  [["targets=["], "--set targets: is not valid YAML: Flow sequence must end with a ] at line 1, column 2"],
  [["targets=[{name: A, upstream: {host: h}}]"], `--set targets: targets[0].name: ${LABEL}`],
];
for (const [set, expected] of OVERRIDES) {
  test(`--set ${set}`, async () => assert.deepEqual(await faults({ set }), [expected]));
}

for (const path of ["webhook.prt", "no.such"]) {
  test(`--set ${path} lists the settings there`, async () => {
    const [fault = "", ...others] = await faults({ set: [`${path}=1`] });
    assert.deepEqual(others, []);
    assert.ok(fault.startsWith(`--set ${path}: `));
    assert.match(fault, /: unknown setting; accepted are /);
  });
}

test("property: loading an invalid file throws only config-invalid", async () => {
  const key = fc.constantFrom(
    "proxy",
    "targets",
    "policy",
    "namespace",
    "name",
    "ports",
    "upstream",
    "__proto__",
    "host",
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom("a", "", null, 0, -1, true, 1.5, "v1"),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 4 }),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(value, async (content) =>
      (await faults({}, JSON.stringify(content))).every((line) => line.includes(": ")),
    ),
  );
});
