import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { STATUS_KEY_HEADER, statusSecretData } from "#lib/documents/status-page.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { RELAYED } from "#test/fakes/doctor-facts.ts";
import { addConfig } from "#test/fakes/installed.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { OBJECTS, targetsObject } from "#test/published.ts";
import type { InstallFacts } from "./facts.ts";
import { gatherInstall } from "./gather-install.ts";

const CONFIGMAPS = "/api/v1/namespaces/ours/configmaps";
const SECRETS = "/api/v1/namespaces/ours/secrets";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/ours/deployments";
const STATUS = "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status";

/** The replicas' answers, in order; the last one repeats. */
type Answers = readonly { readonly status?: number; readonly text: string }[];

let server: MemoryServer;
let raw: { path: string; options: object }[];
let answers: Record<string, Answers>;
beforeEach(() => {
  server = new MemoryServer();
  raw = [];
  answers = { [STATUS]: [{ text: JSON.stringify(LEADING) }] };
});

const LEADING = { leader: true, synced: true, sources: [], warnings: [], names: [] };

async function gather(): Promise<InstallFacts> {
  const client: KubeClient = {
    ...server.client,
    raw: async (path, options = {}) => {
      const asked = raw.filter((call) => call.path === path).length;
      raw.push({ path, options });
      const { status = 200, text = "" } = answers[path]?.[asked] ?? answers[path]?.at(-1) ?? {};
      return { status, text, contentType: "text/plain" };
    },
  };
  return await gatherInstall(client, "ours");
}

const unknown = (code: string, text: string) => ({ known: false, reason: { code, text } });

test("without an installation, all facts are undefined or empty", async () => {
  const { config, targets, deployments } = await gather();
  for (const fact of [config, targets]) assert.deepEqual(fact, { known: true, value: undefined });
  assert.deepEqual(deployments, { known: true, value: [] });
});

test("the reason names each missing permission", async () => {
  server.onCall = () => refusal(403, "Forbidden");
  const missing = (text: string) => unknown("right-missing", `missing permission: ${text} in the namespace ours`);
  const { config, targets, deployments } = await gather();
  assert.deepEqual(config, missing("get configmaps switchback-config"));
  assert.deepEqual(targets, missing(`get configmaps ${OBJECTS.targets}`));
  assert.deepEqual(deployments, missing("list deployments.apps"));
});

test("the reason names the missing permission for the controller's page", async () => {
  const client: KubeClient = { ...server.client, raw: (path) => server.client.get(path) };
  server.onCall = ({ path }) => (path.includes("/services/") ? refusal(403, "Forbidden") : undefined);
  const text = "missing permission: get services/proxy switchback-controller:http in the namespace ours";
  assert.deepEqual((await gatherInstall(client, "ours")).status, unknown("right-missing", text));
});

describe("the configuration", () => {
  const read = async (data: object | undefined) => {
    addConfig(server, data);
    return (await gather()).config;
  };

  test("is the one in the ConfigMap, with defaults", async () => {
    const config = parseConfig({ inject: { maxNames: 7 } });
    assert.deepEqual(await read({ "config.yaml": "inject: { maxNames: 7 }" }), { known: true, value: config });
  });

  test("is the default if the ConfigMap is empty", async () => {
    const expected = { known: true, value: parseConfig({}) };
    for (const data of [undefined, {}, { "config.yaml": "" }]) assert.deepEqual(await read(data), expected);
  });

  test("is unknown if another version wrote it, or if it is not YAML", async () => {
    for (const [text, expected] of [
      ["unheard: 1", /^ConfigMap switchback-config is not valid for this version: .*unheard/s],
      ["{", /^ConfigMap switchback-config is not valid YAML: [^\n]*at line 1, column 2$/],
    ] as const) {
      const config = await read({ "config.yaml": text });
      assert.ok(!config.known);
      assert.equal(config.reason.code, "config-unreadable");
      assert.match(config.reason.text, expected);
    }
  });
});

/** The data of a ConfigMap with a text that does not parse under each key. */
const broken = ({ data }: { readonly data: object }) => Object.fromEntries(Object.keys(data).map((key) => [key, "{"]));

describe("the published targets", () => {
  const read = async (data: object | undefined) => {
    server.add(CONFIGMAPS, OBJECTS.targets, { data });
    return (await gather()).targets;
  };

  test("are the ones in the ConfigMap", async () => {
    assert.deepEqual(await read(targetsObject([RELAYED]).data), { known: true, value: [RELAYED] });
  });

  test("are undefined if the key is missing, and unknown if the text does not parse", async () => {
    assert.deepEqual(await read({}), { known: true, value: undefined });
    const targets = await read(broken(targetsObject([])));
    assert.ok(!targets.known);
    assert.equal(targets.reason.code, "targets-malformed");
    assert.match(targets.reason.text, /^targets\.json .*is not JSON/);
  });
});

test("reads the Deployments, with their first container and Kubernetes' defaults", async () => {
  const containers = [{ image: "s:1", imagePullPolicy: "Always" }, { image: "sidecar" }];
  server.add(DEPLOYMENTS, "full", {
    spec: { replicas: 3, template: { spec: { containers } } },
    status: { readyReplicas: 2 },
  });
  server.add(DEPLOYMENTS, "bare");
  server.add(DEPLOYMENTS, "partial", { spec: { template: { spec: { containers: [{}] } } }, status: {} });
  const defaults = { desired: 1, ready: 0, image: "", pullPolicy: "IfNotPresent" };
  assert.deepEqual((await gather()).deployments, {
    known: true,
    value: [
      { name: "full", desired: 3, ready: 2, image: "s:1", pullPolicy: "Always" },
      { name: "bare", ...defaults },
      { name: "partial", ...defaults },
    ],
  });
});

describe("the controller's status", () => {
  const workload = { namespace: "a", kind: "Deployment", name: "b", stale: 1, standing: "stuck", code: "c", text: "t" };
  const full = {
    ...LEADING,
    sources: [{ name: "ingress", synced: false }],
    hold: { names: 1, of: 2, until: 8.64e15 },
    warnings: [{ code: "c", text: "t" }],
    names: [{ name: "a.example.com", reason: { code: "c", text: "t" } }, { name: "b.example.com" }],
    running: { workloads: [workload] },
  };
  const asked = () => raw.filter(({ path }) => path === STATUS);

  test("is the leader's answer", async () => {
    answers[STATUS] = [{ text: JSON.stringify(full) }];
    assert.deepEqual((await gather()).status, { known: true, value: full });
    assert.deepEqual(asked(), [{ path: STATUS, options: { anyStatus: true, maxBytes: 64 * 1024 * 1024 } }]);
  });

  test("is read with the key", async () => {
    const key = "k".repeat(43);
    server.add(SECRETS, OBJECTS.statusKey, { data: statusSecretData(key) });
    assert.deepEqual((await gather()).status, { known: true, value: LEADING });
    const options = { anyStatus: true, headers: { [STATUS_KEY_HEADER]: key }, maxBytes: 64 * 1024 * 1024 };
    assert.deepEqual(asked(), [{ path: STATUS, options }]);
  });

  test(
    "is not known without the right to the key, " + "unless the controller is an earlier one that asks for none",
    async () => {
      server.onCall = ({ path }) => (path.startsWith(SECRETS) ? refusal(403, "Forbidden") : undefined);
      assert.deepEqual((await gather()).status, { known: true, value: LEADING });
      answers[STATUS] = [{ status: 403, text: "send the key" }];
      const missing = `missing permission: get secrets ${OBJECTS.statusKey} in the namespace ours`;
      assert.deepEqual((await gather()).status, unknown("right-missing", missing));
    },
  );

  test("is not known while there is no key", async () => {
    answers[STATUS] = [{ status: 403, text: "no key yet" }];
    assert.deepEqual((await gather()).status, unknown("not-read", `GET ${STATUS}: no key yet`));
  });

  test("is not known where a field is missing or of another kind", async () => {
    for (const wrong of [{ leader: undefined }, { hold: { ...full.hold, until: 8.65e15 } }, { names: [{ name: 1 }] }]) {
      answers[STATUS] = [{ text: JSON.stringify({ ...full, ...wrong }) }];
      const { status } = await gather();
      assert.equal(status.known ? "known" : status.reason.code, "not-read");
    }
  });
});
