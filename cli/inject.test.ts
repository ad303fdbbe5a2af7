import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { parse } from "yaml";
import { shortHash } from "../hostmap/hash.ts";
import { captured, filesFolder } from "../test/fakes/cli.ts";
import { type FakeApi, fakeApi, inTurn, json, type Responder, refuse } from "../test/fakes/kube-api.ts";
import { type InjectFlags, inject } from "./inject.ts";

const POD = "kind: Pod\nmetadata: { name: p }\nspec: { containers: [] }\n";

let files: Awaited<ReturnType<typeof filesFolder>>;
let pod: string;
before(async () => {
  files = await filesFolder();
  pod = await files.file("pod.yaml", POD);
});
after(() => files.remove());

async function run(flags: Partial<InjectFlags>) {
  const { context, written } = captured();
  await inject({ filename: pod, namespace: "ours", ...flags }, context);
  return written;
}

const aliasesOf = (stdout: string) => parse(stdout).spec.hostAliases;

describe("inject with a hosts file", () => {
  it("prints the objects, says on standard error what was done, and touches no cluster", async () => {
    const hosts = await files.file(
      "hosts",
      "203.0.113.5 b.example.com a.example.com # more\n203.0.113.6 c.example.com\n",
    );
    const { stdout, stderr } = await run({ hosts });
    assert.deepEqual(aliasesOf(stdout), [
      { ip: "203.0.113.5", hostnames: ["a.example.com", "b.example.com"] },
      { ip: "203.0.113.6", hostnames: ["c.example.com"] },
    ]);
    assert.equal(stderr, "Pod p: injected: 3 names\n");
  });

  it("takes the first names in order up to --max-names, and says so", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com b.example.com c.example.com\n");
    const { stdout } = await run({ hosts, maxNames: 2 });
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com", "b.example.com"] }]);
    assert.match(stdout, /only the first 2 of 3 names: choose with switchback\.dev\/hosts/);
  });

  it("prints nothing at all when one of several cannot be injected", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    const filename = await files.file("two.yaml", `${POD}---\nkind: Deployment\n`);
    const { context, written } = captured();
    await assert.rejects(inject({ filename, hosts, namespace: "ours" }, context), {
      code: "input-invalid",
      message: /no output was written/,
    });
    assert.equal(written.stdout, "");
    assert.match(
      written.stderr,
      /^Pod p: injected: 1 names\ndocument 2: not injected \(no-pod-template\): spec\.template/,
    );
  });

  it("says that there was nothing to inject, and prints the file", async () => {
    const hosts = await files.file("hosts", "");
    const filename = await files.file("service.yaml", "kind: Service\n");
    assert.deepEqual(await run({ filename, hosts }), {
      stdout: "kind: Service\n",
      stderr: `${filename}: no pods or workloads found\n`,
    });
  });

  for (const [what, flags, message] of [
    ["a file that is not there", { filename: "/nonexistent/x.yaml" }, /^cannot read \/nonexistent\/x\.yaml: ENOENT/],
    ["a hosts file that is not there", { hosts: "/nonexistent/hosts" }, /^cannot read \/nonexistent\/hosts: ENOENT/],
    [
      "no number for --max-names",
      { hosts: "/dev/null", maxNames: Number.NaN },
      /^--max-names: expected a whole number/,
    ],
    ["zero for --max-names", { hosts: "/dev/null", maxNames: 0 }, /^--max-names: expected a whole number/],
  ] as const) {
    it(`refuses ${what}`, async () => {
      await assert.rejects(run(flags), { code: "input-invalid", message });
    });
  }
});

describe("inject with the live map", () => {
  let api: FakeApi;
  afterEach(() => api.close());

  const shard = (hosts: string) => ({ metadata: { name: "switchback-hosts-0" }, data: { hosts } });
  const index = (revision: string) => {
    const document = { revision: "r", targets: [], shards: [{ name: "switchback-hosts-0", revision }] };
    return { metadata: { name: "switchback-hosts" }, data: { "index.json": JSON.stringify(document) } };
  };
  const list = (...items: object[]) => json({ metadata: { resourceVersion: "1" }, items });
  const HOSTS = "203.0.113.5 a.example.com\n";
  const whole = list(index(shortHash(HOSTS)), shard(HOSTS));
  const midway = list(index("of the next one"), shard(HOSTS));

  async function live(respond: Responder) {
    api = await fakeApi(respond);
    return await run({ kubeconfig: await files.kubeconfig(api.url) });
  }

  it("reads the ConfigMaps of our namespace by their label, in one call", async () => {
    const { stdout } = await live(whole);
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    const [call, ...more] = api.calls;
    assert.ok(call && more.length === 0);
    assert.equal(call.path, "/api/v1/namespaces/ours/configmaps");
    assert.equal(call.query.get("labelSelector"), "switchback.dev/map=hosts");
  });

  it("looks again while a publication is under way", async () => {
    const { stdout } = await live(inTurn(midway, midway, whole));
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    assert.equal(api.calls.length, 3);
  });

  for (const [what, respond, error] of [
    [
      "there is none",
      list(),
      { code: "data-corrupt", message: /namespace ours .* ConfigMap switchback-hosts .*not found/ },
    ],
    [
      "its parts do not fit",
      midway,
      { code: "data-corrupt", message: /shard switchback-hosts-0 has another revision/ },
    ],
    ["it is not to be read", refuse(403, "Forbidden"), { code: "kube-status", status: 403 }],
  ] as const) {
    it(`prints nothing when ${what}`, async () => {
      await assert.rejects(live(respond), error);
    });
  }
});
