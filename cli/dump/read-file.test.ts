import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { stringify } from "yaml";
import { useFiles } from "#test/fakes/cli.ts";
import { readClusterFile } from "./read-file.ts";

const HEAD = "apiVersion: dump.switchback.dev/v1\nkind: Dump\n";
const SERVICES = "/api/v1/services";
const service = (name: string) =>
  `apiVersion: v1\nkind: Service\nmetadata: { namespace: shop, name: ${name} }\nstatus: { loadBalancer: {} }\n`;

const files = useFiles();

const readText = async (text: string | Uint8Array) => await readClusterFile(await files.file("d.yaml", text as string));
const read = async (...documents: string[]) => await readText(documents.join("---\n"));
const refused = async (message: RegExp, ...documents: string[]) =>
  await assert.rejects(read(...documents), { code: "input-invalid", message });

async function namesIn(text: string, path = SERVICES): Promise<string[]> {
  const { client } = await readText(text);
  const { items } = await client.list<{ metadata: { name: string } }>(path);
  return items.map(({ metadata }) => metadata.name);
}

const object = (name: string, kind = "Service") => ({
  apiVersion: "v1",
  kind,
  metadata: { namespace: "shop", name, creationTimestamp: "2026-01-01T00:00:00Z" },
});
const list = (...items: object[]) => ({ apiVersion: "v1", items, kind: "List", metadata: { resourceVersion: "" } });
const yaml = (...items: object[]) => stringify(list(...items), { indentSeq: false });

describe("a file of kubectl", () => {
  for (const [what, text] of [
    ["has a list in YAML", yaml(object("a"), object("b"))],
    ["has a list in JSON", JSON.stringify(list(object("a"), object("b")), undefined, 4)],
    ["has lists that were appended one after the other", yaml(object("a")) + yaml(object("b"))],
    [
      "has lists in JSON that were appended",
      `${[object("a"), object("b")].map((each) => JSON.stringify(list(each), undefined, 4)).join("\n")}\n`,
    ],
    ["has one object a document", `${stringify(object("a"))}---\n${stringify(object("b"))}`],
    [
      "has a list of one kind, whose items do not repeat it",
      JSON.stringify({
        ...list(),
        kind: "ServiceList",
        items: [{ metadata: object("a").metadata }, { metadata: { name: "b" } }],
      }),
    ],
    [
      "has Windows' ends of lines, comments and markers with text",
      `# x\r\n--- # y\r\n${yaml(object("a")).replaceAll("\n", "\r\n")}--- ${JSON.stringify(object("b"))}\n...\n`,
    ],
    ["has JSON that was appended to YAML", `${yaml(object("a"))}${JSON.stringify(list(object("b")))}\n`],
    ["has YAML that was appended to JSON", `${JSON.stringify(list(object("a")))}\n${yaml(object("b"))}`],
    ["has an object twice", yaml(object("a"), object("b"), object("a"))],
  ] as const) {
    test(what, async () => assert.deepEqual(await namesIn(text), ["a", "b"]));
  }

  test("has texts that look like items, and an empty list", async () => {
    const data = { text: "- a\n---\napiVersion: v1\n- b\n" };
    assert.deepEqual(await namesIn(yaml({ ...object("a", "ConfigMap"), data }, object("b")) + yaml()), ["b"]);
  });

  test("keeps the fields that are read, and of a kind that only the configuration may name, all", async () => {
    const ox = { apiVersion: "example.com/v1", kind: "Cart", metadata: { name: "a" }, spec: { wheels: 4 } };
    const balancer = { ...object("a"), spec: { type: "LoadBalancer", healthCheckNodePort: 1 } };
    const { client } = await readText(yaml(balancer, ox));
    const specAt = async (path: string) => (await client.get<{ spec: object }>(path)).spec;
    assert.deepEqual(await specAt("/api/v1/namespaces/shop/services/a"), { type: "LoadBalancer" });
    assert.deepEqual(await specAt("/apis/example.com/v1/carts/a"), { wheels: 4 });
  });

  test("does not show that a kind without objects has none, unless a dump says that it was listed", async () => {
    const listed = "apiVersion: dump.switchback.dev/v1\nkind: Answer\nmethod: GET\npath: /api/v1/nodes\nstatus: 200\n";
    const { client, lacks } = await read(service("a"), listed);
    assert.deepEqual((await client.list("/api/v1/nodes")).items, []);
    assert.equal(lacks(), undefined);
    await assert.rejects(client.list("/api/v1/namespaces"), { message: /it is not in the file$/ });
    const deployments = client.list("/apis/apps/v1/namespaces/ours/deployments");
    await assert.rejects(deployments, { message: /it is not in the file$/ });
    await assert.rejects(client.get("/apis/traefik.io"), { status: 404 });
    const { status, evidence = "", cures = [] } = lacks() ?? {};
    assert.equal(status, "unknown");
    assert.match(evidence, /d\.yaml has no namespaces, deployments, and nothing of the API groups traefik\.io \(/);
    assert.match(cures.join(), /^echo \/api\/v1\/namespaces \/\S+\/ours\/deployments \| .* --raw >> \S+ && /);
  });

  test("asks for an optional kind as what a cluster may lack", async () => {
    const { client, lacks } = await readText(yaml(object("a")));
    await assert.rejects(client.get("/apis/traefik.io"), { status: 404 });
    const { status, cures = [] } = lacks() ?? {};
    assert.equal(status, "ok");
    assert.match(cures.join(), /^kubectl api-resources .*\(traefik\.io\).* kubectl get -A -o yaml >> \S+$/);
  });

  test("shows that a kind has no objects by an empty list of that kind", async () => {
    const none = JSON.stringify({ ...list(), apiVersion: "apps/v1", kind: "DeploymentList" });
    const { client, lacks } = await readText(`${yaml(object("a"))}${none}\n`);
    assert.deepEqual((await client.list("/apis/apps/v1/namespaces/ours/deployments")).items, []);
    assert.equal(lacks(), undefined);
  });

  test("is of the namespace that the webhook is in, else a Deployment of Switchback", async () => {
    const namespaceIn = async (...items: object[]) => (await readText(yaml(object("a"), ...items))).head.namespace;
    const { metadata } = object("switchback-proxy");
    const deployment = (namespace: string) =>
      Object({ apiVersion: "apps/v1", kind: "Deployment", metadata: { ...metadata, namespace } });
    const webhooks = [{ name: "pod.switchback.dev", clientConfig: { service: { namespace: "sb" } } }];
    const webhook = { ...object("switchback-webhook", "MutatingWebhookConfiguration"), webhooks };
    Object.assign(webhook, { apiVersion: "admissionregistration.k8s.io/v1", metadata: { name: "switchback-webhook" } });
    assert.equal(await namespaceIn(), "switchback-system");
    assert.equal(await namespaceIn(deployment("sb")), "sb");
    assert.equal(await namespaceIn(deployment("a"), deployment("switchback-system")), "switchback-system");
    assert.equal(await namespaceIn(deployment("switchback-system"), webhook), "sb");
  });

  test("shows that a namespace that does not exist has no objects", async () => {
    const { metadata } = object("shop");
    const shop = { apiVersion: "v1", kind: "Namespace", metadata: { ...metadata, namespace: undefined } };
    const { client, lacks } = await readText(yaml(shop));
    await assert.rejects(client.get("/api/v1/namespaces/gone/configmaps/a"), { status: 404 });
    assert.equal(lacks(), undefined);
    await assert.rejects(client.get("/api/v1/namespaces/shop/configmaps/a"), { message: /it is not in the file$/ });
  });
});

test("what is no object is left out and named; a field of a wrong type counts as missing", async () => {
  const odd = [
    "apiVersion: v1\nkind: Service\nmetadata: { name: a }\nspec: { ports: 5, type: LoadBalancer }\n",
    "apiVersion: v1\nkind: Service\nmetadata: { name: b }\nspec:\nstatus: { loadBalancer: { ingress: [ 5 ] } }\n",
    "apiVersion: v1\nkind: Service\nmetadata: {}\n",
    "a: 1\n",
    "apiVersion: dump.switchback.dev/v1\nkind: Later\n",
    "apiVersion: dump.switchback.dev/v1\nkind: Answer\nmethod: GET\n",
  ];
  const { client, leftOut } = await read(HEAD, ...odd);
  const { items } = await client.list<{ spec?: object }>(SERVICES);
  assert.deepEqual(
    items.map(({ spec }) => JSON.stringify(spec)),
    ['{"type":"LoadBalancer"}', undefined],
  );
  assert.deepEqual(
    leftOut.map((line) => / is left out: (.*)$/.exec(line)?.[1]?.split(":")[0]),
    ["metadata.name", "apiVersion", "method", "path"],
  );
  const many = (await read(HEAD, ...Array.from({ length: 25 }, () => "a: 1\n"))).leftOut;
  assert.equal(many.length, 11);
  assert.match(many.at(-1) ?? "", /15 more objects are left out$/);
});

describe("a file is refused, with its name and line", () => {
  for (const [what, text] of [
    ["empty", ""],
    ["a comment", "# nothing\n"],
    ["a list", "- a list\n"],
    ["of another tool", JSON.stringify({ terraform_version: "1.9", resources: [] })],
    ["an empty list", yaml()],
    ["a table", "NAME   CLASS   HOSTS\nshop   nginx   shop.example.com\n"],
  ] as const)
    test(`that is ${what}`, async () =>
      await refused(/d\.yaml: it has no object of Kubernetes; --from reads what/, text));

  test("that is a manifest: its command writes another file", async () => {
    const manifest = { apiVersion: "v1", kind: "Service", metadata: { name: "a" }, status: {} };
    await refused(/it looks like a manifest, not like a cluster: .* > cluster\.yaml$/, yaml(manifest));
  });

  test("that is missing, a folder or binary", async () => {
    const missing = { message: "cannot read /no/such/file: there is no such file" };
    await assert.rejects(readClusterFile("/no/such/file"), missing);
    await assert.rejects(readClusterFile("/"), { message: "cannot read /: it is a folder" });
    const binary = readText(Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7919) & 255));
    await assert.rejects(binary, { code: "input-invalid" });
  });

  test("that has another format", async () => {
    await refused(/d\.yaml:1: the format "dump.switchback.dev\/v2" is not known/, HEAD.replace("v1", "v2"));
  });

  test("that is not YAML, or would not fit into memory", async () => {
    await refused(/d\.yaml:8: Flow sequence/, HEAD, service("a"), "a: [\n");
    const bomb = `a: &a [1,1]\nb: &b [${"*a,".repeat(90)}*a]\nc: [${"*b,".repeat(90)}*b]\n`;
    await refused(/d\.yaml:3: .*alias/, HEAD, bomb);
    const large = Array.from({ length: 300 }, (_, index) => ({ ...object(`s${index}`), text: "x".repeat(10_000) }));
    assert.equal((await namesIn(yaml(...large))).length, 300, "a list is read item by item");
    await refused(/d\.yaml:3: longer than 2097152 characters and not JSON/, HEAD, `a: ${"x".repeat(3e6)}\n`);
  });
});
