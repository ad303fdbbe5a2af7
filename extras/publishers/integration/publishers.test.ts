import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { emptyPublisherState } from "#extras/publishers/publisher-state.ts";
import { PublisherStateStore, readPublisherStates } from "#extras/publishers/publisher-state-store.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { connect } from "#lib/kube/connect.ts";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { until } from "#test/integration/system.ts";
import { OBJECTS } from "#test/published.ts";
import { PUBLISHERS_SECTION } from "../config.ts";
import { CorednsPublisher } from "../coredns.ts";
import { CorednsImportPublisher } from "../coredns-import.ts";
import type { Publisher, Readers } from "../publisher.ts";
import { removePublisher } from "../remove.ts";

// The publishers of the cluster's DNS on a real API server, each with its own account under the chart's rights and
// policies.

const CHART = fileURLToPath(new URL("../../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";
const COREFILE_PATH = "/api/v1/namespaces/kube-system/configmaps/coredns";
const CUSTOM_PATH = "/api/v1/namespaces/kube-system/configmaps/coredns-custom";
const COREFILE = `.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa
    forward . /etc/resolv.conf
    reload
}
import /etc/coredns/custom/*.server
`;
const SILENT: Readers = { tagOf: (revision) => revision, ask: async () => new Set(["not-ours"]) };
const mapOf = (revision: string, ...names: string[]) => ({
  revision,
  entries: names.map((name) => [name, ["198.51.100.9"]] as const),
});

let cluster: ControlPlane;
const clients = new Map<string, KubeClient>();
const tokens = new Map<string, string>();

before(async () => {
  cluster = await startControlPlane();
  await admin("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  const enabled = { enabled: true };
  const config = { publishers: { coredns: enabled, corednsImport: enabled } };
  const values = { networkPolicy: { enabled: true }, config };
  const args = ["install", "switchback", CHART, "-n", NAMESPACE, "--values", "-"];
  const { code, stderr } = await cluster.tool("helm", args, { input: JSON.stringify(values) });
  assert.equal(code, 0, stderr);
  await createCorefile();
  for (const name of ["coredns", "coredns-import"]) {
    const token = await cluster.tokenFor(`${NAMESPACE}/switchback-publisher-${name}`);
    tokens.set(name, token);
    clients.set(name, await connect({ kubeconfig: await cluster.kubeconfigFor({ token }) }));
  }
  await until("the policies to be in force", async () => {
    const { status } = await patch("coredns", COREFILE_PATH, { data: { Corefile: "" } }, true);
    return status === 403;
  });
});
after(async () => {
  for (const client of clients.values()) client.close();
  await cluster?.stop();
});

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

interface ConfigMap {
  readonly metadata: {
    readonly resourceVersion?: string;
    readonly managedFields?: ReadonlyArray<{ readonly manager?: string }>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

async function admin(method: string, path: string, body?: object): Promise<unknown> {
  const answer = await cluster.call({ method, path, ...(body && { body }) });
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

async function send(publisher: string, method: string, path: string, body?: object, type?: string): Promise<Answer> {
  const token = tokens.get(publisher) ?? "";
  return await cluster.call({
    method,
    path,
    token,
    ...(body && { body: JSON.stringify(body) }),
    ...(type && { contentType: type }),
  });
}

const patch = (publisher: string, path: string, body: object, dryRun = false) =>
  send(publisher, "PATCH", `${path}${dryRun ? "?dryRun=All" : ""}`, body, "application/merge-patch+json");

async function createCorefile(): Promise<void> {
  const metadata = { name: "coredns", labels: { "k8s-app": "kube-dns" }, annotations: { note: "theirs" } };
  await admin("POST", "/api/v1/namespaces/kube-system/configmaps?fieldManager=kubeadm", {
    metadata,
    data: { Corefile: COREFILE, other: "kept" },
  });
}

const read = async (path: string) => (await admin("GET", path)) as ConfigMap;
const clientOf = (name: string) => clients.get(name) ?? assert.fail();

function publisherOf(name: "coredns" | "coredns-import"): Publisher {
  const publishers = settingsOf(parseConfig({}), PUBLISHERS_SECTION);
  return name === "coredns"
    ? new CorednsPublisher(publishers.coredns, clientOf(name), SILENT)
    : new CorednsImportPublisher(publishers.corednsImport, clientOf(name), SILENT);
}

/** An object without the metadata that the API server maintains. */
function contentOf(object: ConfigMap): object {
  const { resourceVersion: _, managedFields: _fields, ...metadata } = object.metadata;
  return { ...object, metadata };
}

it("NetworkPolicies let a publisher and the uninstall ask the cluster's DNS", async () => {
  interface Policy {
    readonly spec: { readonly egress?: ReadonlyArray<{ readonly ports?: ReadonlyArray<{ readonly port: number }> }> };
  }
  const path = `/apis/networking.k8s.io/v1/namespaces/${NAMESPACE}/networkpolicies/switchback-publisher-coredns`;
  const { spec } = (await admin("GET", path)) as Policy;
  assert.ok(spec.egress?.some(({ ports }) => ports?.some(({ port }) => port === 53)));
  const flags = ["--set", "networkPolicy.enabled=true", "--set", "config.publishers.coredns.enabled=true"];
  const { stdout } = await cluster.tool("helm", ["template", "switchback", CHART, "-n", NAMESPACE, ...flags], {});
  const hook = stdout
    .split("\n---\n")
    .filter((each) => /kind: NetworkPolicy[\s\S]*name: switchback-uninstall\n/.test(each));
  assert.equal(hook.length, 1);
  assert.match(hook[0] ?? "", /protocol: UDP, port: 53 /);
});

describe("coredns", () => {
  it("writes its part of the Corefile, and restores the Corefile byte for byte on removal", async () => {
    const before = await read(COREFILE_PATH);
    const publisher = publisherOf("coredns");
    assert.equal(await publisher.original?.(), COREFILE);
    assert.deepEqual(await publisher.publish(mapOf("r1", "shop.example.com")), { names: 1, leftOut: 0 });
    const text = (await read(COREFILE_PATH)).data?.Corefile ?? "";
    assert.match(text, /^# BEGIN switchback coredns: 1 names, revision r1\. Do not edit\.\n/);
    assert.ok(text.endsWith(COREFILE));
    assert.deepEqual(await publisher.presence?.(), { kind: "as-written" });
    const { metadata } = await read(COREFILE_PATH);
    await publisher.publish(mapOf("r1", "shop.example.com"));
    assert.equal((await read(COREFILE_PATH)).metadata.resourceVersion, metadata.resourceVersion, "nothing is written");
    await publisher.publish(mapOf("r2", "shop.example.com", "api.example.com"));
    await publisher.remove();
    const after = await read(COREFILE_PATH);
    assert.deepEqual(contentOf(after), contentOf(before));
    assert.ok(after.metadata.managedFields?.every(({ manager }) => manager !== "switchback-publisher"));
  });

  it("keeps changes outside its part, and detects who takes its part back", async () => {
    const publisher = publisherOf("coredns");
    await publisher.publish(mapOf("r1", "shop.example.com"));
    const edited = ((await read(COREFILE_PATH)).data?.Corefile ?? "").replace(
      "    kubernetes",
      "    log\n    kubernetes",
    );
    await edit(edited, "kubectl-edit");
    assert.deepEqual(await publisher.presence?.(), { kind: "as-written" });
    await edit(COREFILE, "flux");
    assert.deepEqual(await publisher.presence?.(), { kind: "taken-back", by: "flux" });
    await publisher.publish(mapOf("r1", "shop.example.com"));
    await edit(
      ((await read(COREFILE_PATH)).data?.Corefile ?? "").replace("    kubernetes", "    log\n    kubernetes"),
      "kubectl-edit",
    );
    await publisher.remove();
    assert.equal(
      (await read(COREFILE_PATH)).data?.Corefile,
      COREFILE.replace("    kubernetes", "    log\n    kubernetes"),
    );
    await edit(COREFILE, "kubectl-edit");
  });

  for (const [code, corefile] of [
    ["publisher-corefile-unreadable", ".:53 {\n reload\n"],
    ["publisher-corefile-unreadable", ".:53\nreload\n"],
    ["publisher-no-reload", ".:53 {\n errors\n}\n"],
    ["publisher-corefile-unreadable", "cluster.local:53 {\n reload\n}\n"],
  ] as const) {
    it(`does not change a Corefile that it cannot use: ${code}`, async () => {
      await edit(corefile, "kubectl-edit");
      const outcome = await publisherOf("coredns").publish(mapOf("r1", "shop.example.com"));
      assert.deepEqual([outcome.refused, outcome.problem?.code], [true, code]);
      assert.equal((await read(COREFILE_PATH)).data?.Corefile, corefile);
      await edit(COREFILE, "kubectl-edit");
    });
  }

  it("does not write a Corefile that the addon manager keeps, nor over a change that it has not seen", async () => {
    await patchAdmin(COREFILE_PATH, { metadata: { labels: { "addonmanager.kubernetes.io/mode": "Reconcile" } } });
    const outcome = await publisherOf("coredns").publish(mapOf("r1", "shop.example.com"));
    assert.equal(outcome.problem?.code, "publisher-corefile-owned");
    await patchAdmin(COREFILE_PATH, { metadata: { labels: { "addonmanager.kubernetes.io/mode": null } } });
    const stale = { metadata: { resourceVersion: "1" }, data: { Corefile: `${COREFILE}` } };
    assert.equal((await patch("coredns", COREFILE_PATH, stale)).status, 409);
  });
});

describe("coredns-import", () => {
  it("creates a missing ConfigMap, and deletes it as a whole on removal", async () => {
    const publisher = publisherOf("coredns-import");
    await publisher.publish(mapOf("r1", "shop.example.com"));
    assert.match(
      (await read(CUSTOM_PATH)).data?.["switchback.server"] ?? "",
      /^# BEGIN switchback coredns-import: 1 names/,
    );
    await publisher.remove();
    assert.equal((await cluster.call({ path: CUSTOM_PATH })).status, 404);
    await publisher.remove();
  });

  it("adds its key to an existing ConfigMap, and removes only that key", async () => {
    await admin("POST", "/api/v1/namespaces/kube-system/configmaps", {
      metadata: { name: "coredns-custom" },
      data: { "theirs.server": "corp.example:53 {\n errors\n}\n", "notes.txt": "{" },
    });
    const before = await read(CUSTOM_PATH);
    const publisher = publisherOf("coredns-import");
    assert.deepEqual(await publisher.publish(mapOf("r1", "a.corp.example", "corp.example")), {
      names: 1,
      leftOut: 1,
      problem: { code: "publisher-zone-taken", text: "1 names are left out: another server block answers for them" },
    });
    await publisher.remove();
    assert.deepEqual(contentOf(await read(CUSTOM_PATH)), contentOf(before));
  });

  it("does not write a key that belongs to somebody else, or that nobody imports", async () => {
    await patchAdmin(CUSTOM_PATH, { data: { "switchback.server": "mine:53 {\n}\n" } });
    const taken = await publisherOf("coredns-import").publish(mapOf("r1", "shop.example.com"));
    assert.equal(taken.problem?.code, "publisher-key-taken");
    await publisherOf("coredns-import").remove();
    assert.equal((await read(CUSTOM_PATH)).data?.["switchback.server"], "mine:53 {\n}\n");
    await patchAdmin(CUSTOM_PATH, { data: { "switchback.server": null } });
    await edit(COREFILE.replace(/import.*\n/, ""), "kubectl-edit");
    const unimported = await publisherOf("coredns-import").publish(mapOf("r1", "shop.example.com"));
    assert.equal(unimported.problem?.code, "publisher-not-imported");
    assert.equal((await read(CUSTOM_PATH)).data?.["switchback.server"], undefined);
    await edit(COREFILE, "kubectl-edit");
  });
});

describe("a stolen token of a publisher", () => {
  const CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps";
  const OURS = "# BEGIN switchback coredns: x\n.:53 {\n}\n# END switchback coredns\n";
  const KEY = "# BEGIN switchback coredns-import: x\n# END switchback coredns-import\n";
  const changes: ReadonlyArray<readonly [what: string, publisher: string, path: string, body: object]> = [
    ["the Corefile beside its part", "coredns", COREFILE_PATH, { data: { Corefile: `${OURS}${COREFILE}# more\n` } }],
    ["the Corefile to nothing", "coredns", COREFILE_PATH, { data: { Corefile: null } }],
    ["another key", "coredns", COREFILE_PATH, { data: { other: "x" } }],
    ["a label", "coredns", COREFILE_PATH, { metadata: { labels: { a: "b" } } }],
    ["another ConfigMap", "coredns", CUSTOM_PATH, { data: { "switchback.server": KEY } }],
    ["the Corefile that it only reads", "coredns-import", COREFILE_PATH, { data: { Corefile: OURS } }],
    ["somebody else's key", "coredns-import", CUSTOM_PATH, { data: { "theirs.server": KEY } }],
    ["its key, without its lines", "coredns-import", CUSTOM_PATH, { data: { "switchback.server": ".:53 {\n}\n" } }],
  ];
  for (const [what, publisher, path, body] of changes) {
    it(`does not change ${what}`, async () => {
      assert.equal((await patch(publisher, path, body, true)).status, 403);
    });
  }

  it("may change its own part", async () => {
    assert.equal((await patch("coredns", COREFILE_PATH, { data: { Corefile: OURS + COREFILE } }, true)).status, 200);
    assert.equal(
      (await patch("coredns-import", CUSTOM_PATH, { data: { "switchback.server": KEY } }, true)).status,
      200,
    );
  });

  it("cannot create or delete a ConfigMap of somebody else", async () => {
    const create = (name: string, namespace: string, publisher: string) =>
      send(publisher, "POST", `/api/v1/namespaces/${namespace}/configmaps?dryRun=All`, {
        metadata: { name, labels: { "switchback.dev/publisher": publisher } },
        data: {},
      });
    assert.equal((await create("x", "kube-system", "coredns-import")).status, 403);
    assert.equal((await create(OBJECTS.map, NAMESPACE, "coredns")).status, 403);
    assert.equal((await create("switchback-publisher-coredns-import", NAMESPACE, "coredns")).status, 403);
    assert.equal((await create("switchback-publisher-coredns", NAMESPACE, "coredns")).status, 201);
    assert.equal((await send("coredns-import", "DELETE", `${CONFIG_MAPS}/coredns-custom?dryRun=All`)).status, 403);
  });
});

it("the document is written, read by others, marked during a removal, and deleted", async () => {
  const client = clientOf("coredns");
  const store = new PublisherStateStore(client, NAMESPACE, "coredns");
  assert.equal(await store.read(), undefined);
  const publisher = publisherOf("coredns");
  await publisher.publish(mapOf("r1", "shop.example.com"));
  const state = { ...emptyPublisherState("coredns", publisher.place), revision: "r1", names: 1 };
  const first = await store.write(state, "original", undefined);
  await assert.rejects(store.write(state, "original", undefined), { status: 409 });
  await store.write({ ...state, names: 2 }, first.original, first);
  await assert.rejects(store.write(state, "original", first), { status: 409 });
  const admins = await connect({ kubeconfig: cluster.adminKubeconfig });
  assert.deepEqual((await readPublisherStates(admins, NAMESPACE)).get("coredns"), { ...state, names: 2 });
  admins.close();
  const said: string[] = [];
  const options = {
    canAsk: true,
    timeoutMs: 10_000,
    now: Date.now,
    say: (line: string) => said.push(line),
    pollMs: 10,
  };
  await removePublisher({ publisher, store, ...options });
  assert.deepEqual(said, [
    "coredns: taken out of the key Corefile of the ConfigMap kube-system/coredns",
    "coredns: the cluster's DNS has stopped answering, measured by asking",
  ]);
  const left = (await store.read())?.state;
  assert.ok(left !== undefined && !("code" in left) && left.leaving !== undefined);
  assert.deepEqual([left.revision, left.names], [undefined, 0]);
  assert.equal((await read(COREFILE_PATH)).data?.Corefile, COREFILE);
  await store.delete();
  await store.delete();
});

async function patchAdmin(path: string, body: object): Promise<void> {
  const contentType = "application/merge-patch+json";
  const { status } = await cluster.call({ method: "PATCH", path, body: JSON.stringify(body), contentType });
  assert.equal(status, 200);
}

/** Writes the Corefile as this field manager. */
async function edit(corefile: string, manager: string): Promise<void> {
  await patchAdmin(`${COREFILE_PATH}?fieldManager=${manager}`, { data: { Corefile: corefile } });
}
