import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fc } from "#test/property.ts";
import type { ConfigInput, LoadedConfig } from "./document.ts";
import { listSettings } from "./json-schema.ts";
import { loadConfig } from "./load.ts";
import { loadPlainConfig } from "./plain.ts";
import plainSchema from "./plain-schema.json" with { type: "json" };
import { settingsOf } from "./settings.ts";

const FOLDER = mkdtempSync(join(tmpdir(), "switchback-"));
const FILE = join(FOLDER, "config.yaml");
after(() => rmSync(FOLDER, { recursive: true }));

function inputOf(text: string | undefined, input: ConfigInput): ConfigInput {
  if (text === undefined) return input;
  writeFileSync(FILE, text);
  return { ...input, file: FILE };
}

/** What the libraries make of it; undefined if they refuse it. */
function judged(input: ConfigInput): LoadedConfig | undefined {
  try {
    return loadConfig({ ...input, unknown: "warn" });
  } catch {
    return undefined;
  }
}

const service = { service: { namespace: "edge", name: "traefik" } };

const PLAIN: ReadonlyArray<readonly [what: string, document: unknown, input?: ConfigInput]> = [
  ["nothing", undefined],
  ["an empty document", {}],
  ["sections without settings", { proxy: {}, sources: { gateway: {} } }],
  ["settings of each type", { namespace: "a", strict: true, discovery: { maxPorts: 3 }, certs: { caDays: 0.5 } }],
  ["a target, with defaults for what it lacks", { targets: [{ name: "a", upstream: service, ports: [{ port: 80 }] }] }],
  ["no target", { targets: [] }],
  ["labels", { proxy: { selector: { "app.kubernetes.io/name": "switchback", a: "b" } } }],
  ["an optional setting", { clusterDomain: "cozy.local", podDns: { searches: ["a.example"] } }],
  ["lists of names", { restart: { namespaces: ["a", "b"] }, pods: { excludedNamespaces: ["kube-system"] } }],
  ["a checked setting that is as by default", { agent: { kubeletRoot: "/var/lib/kubelet" }, sources: { presets: [] } }],
  ["overrides", { log: { level: "warn" } }, { env: { SWITCHBACK_AGENT_NODE: "n" }, set: ["controller.port=0"] }],
  ["one of several words", {}, { env: { SWITCHBACK_LOG_LEVEL: "debug" }, set: ["proxy.engine=portable"] }],
  ["an override of a section that is not there", undefined, { set: ['restart.namespaces=["a"]'] }],
  ["a variable that is no setting, with its warning", {}, { env: { SWITCHBACK_NONSENSE: "1", PATH: "a" } }],
  ["a variable of a Service", {}, { env: { SWITCHBACK_CONTROLLER_PORT: "tcp://192.0.2.1:80" } }],
];
for (const [what, document, input = {}] of PLAIN)
  test(`read without libraries, and as by them: ${what}`, () => {
    for (const indent of [0, 2]) {
      const from = inputOf(
        document === undefined ? undefined : `${JSON.stringify(document, undefined, indent)}\n`,
        input,
      );
      assert.deepEqual(loadPlainConfig(from), loadConfig({ ...from, unknown: "warn" }));
    }
  });

const OTHERS: ReadonlyArray<readonly [what: string, text: string | undefined, input?: ConfigInput]> = [
  ["YAML", "log: { level: warn }\n"],
  ["a key twice", '{"log":{"level":"warn"},"log":{}}'],
  ["a number in another form", '{"map":{"vanishSeconds":6e1}}'],
  ["a number that JSON cannot have", '{"map":{"vanishSeconds":1e999}}'],
  ["no map of sections", "[]"],
  ["null", "null"],
  ["an unknown setting", '{"nonsense":1}'],
  ["an unknown setting of a section", '{"proxy":{"nonsense":1}}'],
  ["a key that objects have", '{"__proto__":{}}'],
  ["a label of that name", '{"proxy":{"selector":{"__proto__":"a"}}}'],
  ["an address, of which JSON Schema knows no form", '{"targets":[{"name":"a","upstream":{"host":"192.0.2.1"}}]}'],
  ["domains", '{"policy":{"allowDomains":["example.com"]}}'],
  ["a JSONPath", '{"sources":{"custom":[{"group":"g","version":"v1","resource":"r","hostnames":"$.a"}]}}'],
  ["a reserved name", `{"targets":[{"name":"proxy","upstream":${JSON.stringify(service)}}]}`],
  ["a target without an upstream", '{"targets":[{"name":"a"}]}'],
  ["settings that contradict each other", '{"certs":{"mode":"files"}}'],
  ["a variable whose text is no JSON", undefined, { env: { SWITCHBACK_RESTART_NAMESPACES: "[a]" } }],
  ["a flag that is no setting", undefined, { set: ["nonsense=1"] }],
];
for (const [what, text, input = {}] of OTHERS)
  test(`left to the libraries: ${what}`, () => assert.equal(loadPlainConfig(inputOf(text, input)), undefined));

test("a file that is not there is left to the libraries", () =>
  assert.equal(loadPlainConfig({ file: join(FOLDER, "none") }), undefined));

test("it knows the same settings", () => {
  const names = (settings: typeof all) => settings.map(({ description: _, ...setting }) => setting);
  const all = listSettings();
  assert.deepEqual(names(settingsOf(plainSchema as never)), names(all));
});

const VALUES: readonly unknown[] = [
  ...[
    null,
    true,
    -1,
    0,
    0.5,
    1,
    2,
    65_536,
    1e9,
    2 ** 53,
    "",
    "a",
    "A b",
    "*",
    "a.b",
    "*.a.b",
    "-",
    "10.0.0.1",
    "::",
    "/a",
    "/../a",
  ],
  ...["v2", "none", "info", "files", "$.a", [], ["a"], ["a", "a"], ["*"], [1], [[]], {}, { a: "b" }, { a: 1 }, [{}]],
  ...[
    [{ name: "a", upstream: service }],
    [{ name: "dns-a", upstream: service }],
    [{ name: "a", upstream: { host: "h" } }],
  ],
  [{ name: "a", upstream: service, ports: [{ port: 1 }, { port: 1 }] }],
  [{ name: "a", upstream: { ...service, host: "h" } }],
  [{ namespaces: ["a", "*"], domains: ["a.b"] }],
];

test("property: what it reads is what the libraries read", () => {
  const paths = [...listSettings().map(({ path }) => path), "proxy", "targets", "nonsense", "log.nonsense"];
  const change = fc.tuple(fc.constantFrom(...paths), fc.constantFrom(...VALUES));
  let read = 0;
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 2 }), (changes) => {
      const document: Record<string, unknown> = {};
      for (const [path, value] of changes) setAt(document, path.split("."), value);
      const from = inputOf(JSON.stringify(document), {});
      const plain = loadPlainConfig(from);
      if (plain === undefined) return;
      read += 1;
      assert.deepEqual(plain, judged(from));
    }),
    { numRuns: 3_000 },
  );
  assert.ok(read > 100, `${read} were read`);
});

function setAt(document: Record<string, unknown>, [key = "", ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) {
    document[key] = value;
    return;
  }
  const next = document[key];
  const section = typeof next === "object" && next !== null && !Array.isArray(next) ? { ...next } : {};
  document[key] = section;
  setAt(section as Record<string, unknown>, rest, value);
}
