import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { stringify } from "yaml";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { readClusterFile } from "./read-file.ts";

const HEAD = "apiVersion: dump.switchback.dev/v1\nkind: Dump\n";
const SERVICES = "/api/v1/services";
const service = (name: string) => `apiVersion: v1\nkind: Service\nmetadata: { namespace: shop, name: ${name} }\n`;

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

describe("a file of kubectl", () => {
  const object = (name: string, kind = "Service") => ({
    apiVersion: "v1",
    kind,
    metadata: { namespace: "shop", name },
  });
  const list = (...items: object[]) => ({ apiVersion: "v1", items, kind: "List", metadata: { resourceVersion: "" } });
  const yaml = (...items: object[]) => stringify(list(...items), { indentSeq: false });

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
        items: [{ metadata: { name: "a" } }, { metadata: { name: "b" } }],
      }),
    ],
    [
      "has Windows' ends of lines, comments and markers with text",
      `# x\r\n--- # y\r\n${yaml(object("a")).replaceAll("\n", "\r\n")}--- ${JSON.stringify(object("b"))}\n...\n`,
    ],
    ["has an object twice", yaml(object("a"), object("b"), object("a"))],
  ] as const) {
    test(what, async () => assert.deepEqual(await namesIn(text), ["a", "b"]));
  }

  test("has texts that look like items, and an empty list", async () => {
    const data = { text: "- a\n---\napiVersion: v1\n- b\n" };
    assert.deepEqual(await namesIn(yaml({ ...object("a", "ConfigMap"), data }, object("b")) + yaml()), ["b"]);
  });

  test("may be longer than a document in YAML may be, as a list", async () => {
    const items = Array.from({ length: 300 }, (_, index) => ({ ...object(`s${index}`), text: "x".repeat(10_000) }));
    assert.equal((await namesIn(yaml(...items))).length, 300);
  });

  test("keeps the fields that are read, and of a kind that only the configuration may name, all", async () => {
    const ox = { apiVersion: "example.com/v1", kind: "Cart", metadata: { name: "a" }, spec: { wheels: 4 } };
    const { client } = await readText(
      yaml({ ...object("a"), spec: { type: "LoadBalancer", healthCheckNodePort: 1 } }, ox),
    );
    assert.deepEqual((await client.get<{ spec: object }>("/api/v1/namespaces/shop/services/a")).spec, {
      type: "LoadBalancer",
    });
    assert.deepEqual((await client.get<{ spec: object }>("/apis/example.com/v1/carts/a")).spec, { wheels: 4 });
  });

  test("does not show that a kind without objects has none, unless a dump says that it was listed", async () => {
    const listed = "apiVersion: dump.switchback.dev/v1\nkind: Answer\nmethod: GET\npath: /api/v1/nodes\nstatus: 200\n";
    const { client, lacks } = await read(service("a"), listed);
    assert.deepEqual((await client.list("/api/v1/nodes")).items, []);
    assert.equal(lacks(), undefined);
    await assert.rejects(client.list("/api/v1/namespaces"), { message: /it is not in the file$/ });
    await assert.rejects(client.list("/apis/apps/v1/namespaces/ours/deployments"), {
      message: /it is not in the file$/,
    });
    await assert.rejects(client.get("/apis/traefik.io"), { status: 404 });
    const { text, cure } = lacks() ?? {};
    assert.match(text ?? "", /d\.yaml does not have namespaces, deployments, kinds of traefik\.io \(if .* has them\)$/);
    assert.match(
      cure ?? "",
      /^kubectl get namespaces -A -o yaml >> \S+ && kubectl get deployments -n ours -o yaml >> /,
    );
  });

  test("shows that a namespace that does not exist has no objects", async () => {
    const { client, lacks } = await readText(yaml({ ...object("shop", "Namespace"), metadata: { name: "shop" } }));
    const deployments = (namespace: string) => client.list(`/apis/apps/v1/namespaces/${namespace}/deployments`);
    assert.deepEqual((await deployments("gone")).items, []);
    await assert.rejects(client.get("/api/v1/namespaces/gone/configmaps/a"), { status: 404 });
    assert.equal(lacks(), undefined);
    await assert.rejects(deployments("shop"), { message: /it is not in the file$/ });
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
    ["metadata.name", "apiVersion", 'the kind "Later" of dump.switchback.dev/v1 is unknown', "path"],
  );
  const many = (await read(HEAD, ...Array.from({ length: 25 }, () => "a: 1\n"))).leftOut;
  assert.equal(many.length, 11);
  assert.match(many.at(-1) ?? "", /15 more documents are left out$/);
});

describe("a file is refused, with its name and line", () => {
  test("that is missing, empty, binary, or of another tool", async () => {
    await assert.rejects(readClusterFile("/no/such/file"), { message: /^--from \/no\/such\/file: ENOENT/ });
    await refused(/d\.yaml: it has no object of Kubernetes; --from reads what/, "");
    await refused(/it has no object of Kubernetes/, "# nothing\n");
    await refused(/it has no object of Kubernetes/, "- a list\n");
    await refused(/it has no object of Kubernetes/, JSON.stringify({ terraform_version: "1.9", resources: [] }));
    await refused(/it has no object of Kubernetes/, "NAME   CLASS   HOSTS\nshop   nginx   shop.example.com\n");
    const binary = readText(Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7919) & 255));
    await assert.rejects(binary, { code: "input-invalid" });
  });

  test("that has another format", async () => {
    await refused(/d\.yaml: line 1: the format "dump.switchback.dev\/v2" is not known/, HEAD.replace("v1", "v2"));
    await refused(/d\.yaml: line 1: namespace: /, `${HEAD}namespace: 5\n`);
  });

  test("that is not YAML, or would not fit into memory", async () => {
    await refused(/d\.yaml: line 7: Flow sequence/, HEAD, service("a"), "a: [\n");
    const bomb = `a: &a [1,1]\nb: &b [${"*a,".repeat(90)}*a]\nc: [${"*b,".repeat(90)}*b]\n`;
    await refused(/d\.yaml: line 3: .*alias/, HEAD, bomb);
    await refused(/d\.yaml: line 3: longer than 2097152 characters and not JSON/, HEAD, `a: ${"x".repeat(3e6)}\n`);
  });

  test("by the command with the exit code of bad input", async () => {
    const { code, stdout, stderr } = await runHere(["doctor", "--from", await files.file("e.yaml", "a: 1\n")], {});
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /^switchback: .*e\.yaml: it has no object/);
  });
});
