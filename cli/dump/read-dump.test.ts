import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { runHere, useFiles } from "#test/fakes/cli.ts";
import { splitDocuments } from "./documents.ts";
import { readDump } from "./read-dump.ts";

const HEAD = "apiVersion: dump.switchback.dev/v1\nkind: Dump\n";
const SERVICES = "/api/v1/services";
const service = (name: string) => `apiVersion: v1\nkind: Service\nmetadata: { namespace: shop, name: ${name} }\n`;

const files = useFiles();

const read = async (...documents: string[]) => readDump(await files.file("d.yaml", documents.join("---\n")));
const refused = async (message: RegExp, ...documents: string[]) =>
  await assert.rejects(read(...documents), { code: "input-invalid", message });

async function names(path: string, ...documents: string[]): Promise<string[]> {
  const { client } = await read(HEAD, ...documents);
  const { items } = await client.list<{ metadata: { name: string } }>(path);
  return items.map(({ metadata }) => metadata.name);
}

const lookup = (fields: string) => `apiVersion: dump.switchback.dev/v1\nkind: Lookup\n${fields}\n`;

test("look-ups are read by name; only a malformed one is left out", async () => {
  const { lookups, leftOut } = await read(
    HEAD,
    lookup("name: Shop.example.com\naddresses: [203.0.113.7]"),
    lookup("name: none.example.com\naddresses: []"),
    lookup("name: bad.example.com\naddresses: 203.0.113.7"),
    lookup("addresses: []"),
  );
  assert.deepEqual(
    [...lookups],
    [
      ["shop.example.com", ["203.0.113.7"]],
      ["none.example.com", []],
    ],
  );
  assert.equal(leftOut.length, 2);
  assert.match(leftOut[0] ?? "", /document 4 .* is left out: addresses/);
});

test("only objects with fields of a wrong type are left out, and each such field is named", async () => {
  const odd = [
    "apiVersion: v1\nkind: Service\nmetadata: { name: a }\nspec: { ports: }\n",
    "apiVersion: v1\nkind: Service\nmetadata: { name: b }\nspec:\n",
    "apiVersion: v1\nkind: Service\nmetadata: { name: c }\nstatus: { loadBalancer: { ingress: [ { ip: 5 } ] } }\n",
    "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: d }\nspec: { rules: 5 }\n",
    "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: { name: e }\nspec: { listeners: [5] }\n",
    "apiVersion: v1\nkind: Pod\nmetadata: { name: f }\nspec: { hostAliases: 5 }\n",
    "apiVersion: v1\nkind: Node\nmetadata: { name: g }\nstatus: 5\n",
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: h }\nspec: { template: { spec: { containers: [5] } } }\n",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: i }\ndata: [a]\n",
  ];
  const { client, leftOut } = await read(HEAD, ...odd, service("good"));
  const { items } = await client.list<{ metadata: { name: string } }>(SERVICES);
  assert.deepEqual(
    items.map(({ metadata }) => metadata.name),
    ["good"],
  );
  assert.deepEqual(
    leftOut.map((line) => / is left out: ([\w.[\]]+): /.exec(line)?.[1]),
    [
      "spec.ports",
      "spec",
      "status.loadBalancer.ingress[0].ip",
      "spec.rules",
      "spec.listeners[0]",
      "spec.hostAliases",
      "status",
      "spec.template.spec.containers[0]",
      "data",
    ],
  );
});

describe("a dump is refused, with its file and document", () => {
  const document = (number: number, line: number) => String.raw`d\.yaml: document ${number} \(line ${line}\): `;

  test("that is missing or empty", async () => {
    await assert.rejects(readDump("/no/such/file"), {
      code: "input-invalid",
      message: /^--from \/no\/such\/file: ENOENT/,
    });
    await refused(/d\.yaml: it is empty; a dump begins with/, "# nothing\n");
  });

  test("that has another format, or no format", async () => {
    await refused(
      new RegExp(`${document(1, 1)}the format "dump.switchback.dev/v2" is not known`),
      HEAD.replace("v1", "v2"),
    );
    await refused(new RegExp(`${document(1, 1)}a dump begins with`), service("a"));
    await refused(new RegExp(`${document(1, 1)}a dump begins with`), "- a list\n");
    await refused(new RegExp(`${document(1, 1)}namespace: `), `${HEAD}namespace: 5\n`);
  });

  test("that is not YAML, or would not fit into memory", async () => {
    await refused(new RegExp(`${document(3, 8)}Flow sequence`), HEAD, service("a"), "a: [\n");
    const bomb = `a: &a [1,1]\nb: &b [${"*a,".repeat(90)}*a]\nc: [${"*b,".repeat(90)}*b]\n`;
    await refused(new RegExp(`${document(2, 4)}.*alias`), HEAD, bomb);
    await refused(
      new RegExp(`${document(2, 4)}longer than 2097152 characters and not JSON`),
      HEAD,
      `a: ${"x".repeat(3e6)}\n`,
    );
  });

  test("by the command with the exit code of bad input", async () => {
    const { code, stdout, stderr } = await runHere(["doctor", "--from", await files.file("e.yaml", "a: 1\n")], {});
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /^switchback: .*e\.yaml: document 1/);
  });
});

test("a document that is too long is refused before it is read to its end", async () => {
  async function* endless() {
    yield `${HEAD}---\n`;
    for (let at = 0; at < 10_000; at++) yield "x".repeat(64 * 1024);
  }
  const all = async () => {
    for await (const _ of splitDocuments("d.yaml", endless()));
  };
  await assert.rejects(all(), { message: /^d\.yaml: document 2 \(line 4\): longer than 67108864 characters$/ });
});

test("documents that are not objects are left out, and named", async () => {
  const { leftOut, client } = await read(
    HEAD,
    "a: 1\n",
    service("a"),
    "apiVersion: v1\nkind: Service\nmetadata: {}\n",
    "apiVersion: dump.switchback.dev/v1\nkind: Later\n",
    "apiVersion: dump.switchback.dev/v1\nkind: Answer\nmethod: GET\n",
  );
  assert.deepEqual(
    leftOut.map((line) => line.replace(/^.*d\.yaml/, "")),
    [
      ": document 2 (line 4) is left out: apiVersion: is missing",
      ": document 4 (line 10) is left out: metadata.name: is missing",
      ': document 5 (line 14) is left out: the kind "Later" of dump.switchback.dev/v1 is unknown',
      ": document 6 (line 17) is left out: path: is missing",
    ],
  );
  assert.equal((await client.list(SERVICES)).items.length, 1);
});

test("only the first ten left-out documents are named; the others are counted", async () => {
  const { leftOut } = await read(HEAD, ...Array.from({ length: 25 }, () => "a: 1\n"));
  assert.equal(leftOut.length, 11);
  assert.match(leftOut.at(-1) ?? "", /15 more documents are left out$/);
});

test("documents may be JSON or YAML, with comments, carriage returns and text on the marker's line", async () => {
  const json = JSON.stringify({ apiVersion: "v1", kind: "Service", metadata: { namespace: "shop", name: "json" } });
  assert.deepEqual(await names(SERVICES, "# nothing\n", service("a").replaceAll("\n", "\r\n"), `${json}\n`), [
    "a",
    "json",
  ]);
  const { client } = await readDump(await files.file("f.yaml", `--- # a dump\n${HEAD}--- ${json}\n...\n`));
  assert.equal((await client.list(SERVICES)).items.length, 1);
});

test("unknown kinds are kept, with the plural that the head declares", async () => {
  const object = "apiVersion: example.com/v1\nkind: Ox\nmetadata: { name: a }\n";
  assert.deepEqual(await names("/apis/example.com/v1/oxes", object), ["a"]);
  const { client } = await read(`${HEAD}resources: { Ox.example.com: oxen }\n`, object);
  assert.equal((await client.list("/apis/example.com/v1/oxen")).items.length, 1);
});

test("malformed objects do not affect the doctor's other findings", async () => {
  const odd = [
    "spec: 5",
    "spec: null",
    "spec: { type: LoadBalancer, ports: 5 }\nstatus: { loadBalancer: { ingress: [5] } }",
  ];
  const balancer =
    "spec: { type: LoadBalancer, clusterIPs: [198.51.100.1], ports: [{ port: 443 }] }\n" +
    "status: { loadBalancer: { ingress: [{ ip: 203.0.113.7 }] } }";
  const documents = [...odd, balancer].map((text, index) => `${service(`s${index}`)}${text}\n`);
  const file = await files.file("odd.yaml", [HEAD, ...documents].join("---\n"));
  const { stdout, stderr } = await runHere(["doctor", "--from", file, "-o", "json"], {});
  assert.match(stderr, /^(?:[^\n]+ document [234] [^\n]+ is left out: spec[^\n]*\n){3}$/);
  assert.match(stdout, /shop\/s3/);
});
