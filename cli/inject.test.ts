import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, before, describe, it } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { switchback } from "#test/fakes/cli.ts";
import { aliasesOf, injectRig, POD } from "#test/fakes/inject-rig.ts";
import { type FakeApi, fakeApi, json, noConnections, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { edited, mapObjects, OBJECTS } from "#test/published.ts";
import type { InjectFlags } from "./inject.ts";

const { files, outputOf, run } = await injectRig();

describe("inject with a hosts file", () => {
  it("prints the objects, reports what it did on standard error, and sends no request to a cluster", async () => {
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

  it("reads standard input for -, given as an argument or with -f", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    for (const named of [["-"], ["-f", "-"]]) {
      const { code, stdout, stderr } = await switchback(["inject", ...named, "--hosts", hosts], {}, POD);
      assert.deepEqual([code, stderr], [0, "Pod p: injected: 1 name\n"]);
      assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    }
  });

  it("takes at most 500 names by default; --max-names can be as low as one", async () => {
    const names = Array.from({ length: 501 }, (_, index) => `h${index}.example.com`).join(" ");
    const hosts = await files.file("hosts", `203.0.113.5 ${names}\n`);
    assert.match((await run({ hosts, longLine: true })).stdout, /only the first 500 of 501 names/);
    assert.match((await run({ hosts, maxNames: 1 })).stdout, /only the first 1 of 501 names/);
  });

  it("refuses the names that an Ingress may not claim, with the same reason codes", async () => {
    const refused = {
      "metadata.google.internal": "name-protected",
      "acme-v02.api.letsencrypt.org": "name-protected",
      "web.shop.svc": "name-protected",
      "localhost.localdomain": "name-protected",
      localhost: "name-invalid",
      "a_b.example.com": "name-invalid",
      "203.0.113.7": "name-invalid",
      "*.example.com": "wildcard",
    };
    const text = `203.0.113.5 ok.example.com ${Object.keys(refused).join(" ")}\n300.0.0.1 a.example.com\n203.0.113.6\n`;
    const { stdout, stderr } = await run({ hosts: await files.file("hosts", text) });
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["ok.example.com"] }]);
    assert.deepEqual(
      [...stderr.matchAll(/^warning: \S+hosts:(\d): left out \(([a-z0-9-]+)\): ./gm)].map(([, line, code]) => [
        line,
        code,
      ]),
      [...Object.values(refused).map((code) => ["1", code]), ["2", "address-invalid"], ["3", "name-invalid"]],
    );
  });
});

describe("inject with the live map", () => {
  let api: FakeApi;
  afterEach(() => api.close());

  const [map] = mapObjects({ "a.example.com": ["203.0.113.5"] });
  const { data } = edited("203.0.113.5 b.example.com\n");

  async function live(respond: Responder) {
    api = await fakeApi(respond);
    return await run({ kubeconfig: await files.kubeconfig(api.url) });
  }

  it("reads the map of Switchback's namespace in one call", async () => {
    const { stdout } = await live(json(map));
    await noConnections(api);
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    assert.deepEqual(
      api.calls.map(({ path }) => path),
      [`/api/v1/namespaces/ours/configmaps/${OBJECTS.map}`],
    );
  });

  for (const [what, respond, error] of [
    [
      "the map is missing",
      refuse(404, "NotFound"),
      { code: "data-corrupt", message: /namespace ours .* ConfigMap .* does not exist/ },
    ],
    [
      "somebody has edited the map",
      json({ ...map, data }),
      { code: "data-corrupt", message: /is not as the leader wrote it/ },
    ],
  ] as const) {
    it(`prints nothing if ${what}`, async () => {
      await assert.rejects(live(respond), error);
      assert.equal(api.calls.length, 1);
    });
  }
});

describe("the files that inject reads", () => {
  const named = (name: string) => POD.replace("name: p", `name: ${name}`);
  let hosts: string;
  let folder: string;
  before(async () => {
    hosts = await files.file("hosts-of-files", "203.0.113.5 a.example.com\n");
    folder = await files.folder("manifests", {
      "b.yml": `${named("b")}---\nkind: Service\n`,
      "a.yaml": `---\n${named("a")}`,
      "c.json": JSON.stringify({ kind: "Pod", metadata: { name: "c" }, spec: { x: 1 } }),
      "notes.txt": named("no"),
      "below/d.yaml": named("d"),
      "below/e.json": '{ "kind": "Pod", "metadata": { "name": "e" }, "spec": { "x": 1 } }\n',
    });
  });
  const podsOf = (text: string) =>
    parseAllDocuments(text).flatMap((document) => {
      const { kind, metadata, spec } = document.toJS();
      return kind === "Pod" && spec.hostAliases !== undefined ? [metadata.name] : [];
    });

  it("are the manifests of a folder, sorted by name as in kubectl; with -R, also those in its subfolders", async () => {
    const flat = await run({ filename: [folder], hosts });
    assert.deepEqual(podsOf(flat.stdout), ["a", "b", "c"]);
    assert.equal(flat.stderr, "Pod a: injected: 1 name\nPod b: injected: 1 name\nPod c: injected: 1 name\n");
    const deep = await run({ filename: [folder], hosts, recursive: true });
    assert.deepEqual(podsOf(deep.stdout), ["a", "b", "d", "e", "c"]);
  });

  it("pass through with a warning if they are templates of Helm; --strict refuses them", async () => {
    const template = `{{- if .Values.x }}\n${named("b")}{{ end }}\n`;
    const mixed = await files.folder("mixed", { "a.yaml": named("a"), "chart/b.yaml": template, "d.yaml": named("d") });
    const { stdout, stderr } = await run({ filename: [mixed], hosts, recursive: true });
    assert.ok(stdout.includes(`---\n${template}---\n`), stdout);
    assert.match(stderr, /^warning: \S+b\.yaml:1: .*\(yaml-invalid\)/m);
    assert.match(stderr, /Pod a: injected.*\nPod d: injected/);
    const strict = await outputOf({ filename: [mixed], hosts, recursive: true, strict: true });
    assert.equal(strict.stdout, "");
    assert.match(strict.error ?? "", /yaml-invalid/);
  });

  it("include links to files, but neither pipes nor links to folders", async () => {
    const links = await files.folder("links", { "a.yaml": named("a") });
    await symlink(join(folder, "b.yml"), join(links, "b.yaml"));
    await symlink(folder, join(links, "c.yaml"));
    execFileSync("mkfifo", [join(links, "d.yaml")]);
    const { stdout } = await run({ filename: [links], hosts, recursive: true });
    assert.deepEqual(podsOf(stdout), ["a", "b"]);
    await symlink(join(links, "gone"), join(links, "e.yaml"));
    const missing = { code: "input-invalid", message: /e\.yaml: there is no such file/ };
    await assert.rejects(run({ filename: [links], hosts }), missing);
  });

  it("are read in the order of the flags", async () => {
    const filename = [join(folder, "b.yml"), join(folder, "notes.txt"), join(folder, "a.yaml")];
    const { stdout } = await run({ filename, hosts });
    assert.deepEqual(podsOf(stdout), ["b", "no", "a"]);
    assert.equal(stdout.match(/^---$/gm)?.length, 3);
  });

  it("stay JSON, and several are one YAML stream", async () => {
    const one = await run({ filename: [join(folder, "c.json")], hosts });
    assert.equal(JSON.parse(one.stdout).metadata.name, "c");
    const { stdout } = await run({ filename: [join(folder, "c.json"), join(folder, "below/e.json")], hosts });
    assert.deepEqual(podsOf(stdout), ["c", "e"]);
    const filename = [await files.file("stream.yaml", stdout)];
    assert.equal((await run({ filename, hosts })).stdout, stdout, "a second pass changes nothing");
  });

  it("may begin with directives or a UTF-8 byte order mark, which is removed", async () => {
    const marked = await files.file("marked.yaml", `\ufeff${named("m").replace("kind: ", "kind:   ")}`);
    const directives = await files.file("directives.yaml", `%YAML 1.2\n---\n${named("n")}`);
    const { stdout } = await run({
      filename: [marked, directives],
      hosts: await files.file("marked", `\ufeff203.0.113.5 a.example.com\n`),
    });
    assert.ok(stdout.startsWith("kind: Pod\n"));
    assert.deepEqual(podsOf(stdout), ["m", "n"]);
  });
});

describe("unknown objects pass through with a warning:", () => {
  const template = "spec: { template: { spec: { containers: [] } } }";
  let hosts: string;
  before(async () => {
    hosts = await files.file("hosts-of-kinds", "203.0.113.5 a.example.com\n");
  });
  const inject1 = async (text: string, flags: Partial<InjectFlags> = {}) => {
    const filename = [await files.file("kind.yaml", `${text}\n`)];
    const { stdout, stderr } = await run({ filename, hosts, ...flags });
    return { stdout, stderr: stderr.replace(/^warning: \S+kind\.yaml(:\d)?: /gm, "warning: ") };
  };

  for (const [what, text, warning] of [
    [
      "Argo's Rollout",
      `apiVersion: argoproj.io/v1\nkind: Rollout\n${template}`,
      /--template-path Rollout\.argoproj\.io=spec\.template injects it/,
    ],
    [
      "OpenShift's DeploymentConfig",
      `kind: DeploymentConfig\n${template}`,
      /DeploymentConfig=spec\.template injects it/,
    ],
    [
      "Volcano's Job",
      `apiVersion: batch.volcano.sh/v1\nkind: Job\nspec: { tasks: [ { template: { spec: { containers: [] } } } ] }`,
      /Job\.batch\.volcano\.sh=spec\.tasks\[\*\]\.template injects it/,
    ],
    [
      "a misspelt kind",
      "apiVersion: v1\nkind: Pdo\nspec: { containers: [] }",
      /kind "Pdo" is not known to hold pods, but it looks like a pod template; known kinds are Pod, /,
    ],
    ["what has no kind", "replicaCount: 1", /this is not a Kubernetes object: it has no kind\n/],
  ] as const) {
    it(what, async () => {
      const { stdout, stderr } = await inject1(text);
      assert.equal(stdout, `${text}\n`);
      assert.match(stderr, /^warning: .*not injected \((kind-unknown|not-an-object)\): .*\n$/);
      assert.match(stderr, warning);
    });
  }

  it("but without a warning if nothing in them can be a pod", async () => {
    for (const [kind, spec] of [
      ["ApplicationSet", "{ template: { spec: { project: default, source: { path: x } } } }"],
      ["VirtualMachine", "{ template: { spec: { domain: { devices: {} }, volumes: [] } } }"],
      ["constructor", "{ template: { a: 1 } }"],
    ] as const) {
      const text = `apiVersion: example.com/v1\nkind: ${kind}\nspec: ${spec}`;
      const { stdout, stderr } = await inject1(text);
      assert.deepEqual([stdout, stderr], [`${text}\n`, "warning: no pods or workloads found\n"]);
    }
  });

  it("unless --template-path names their pod templates, for one API group or for all", async () => {
    const rollout = `apiVersion: argoproj.io/v1\nkind: Rollout\n${template}`;
    for (const path of ["Rollout=spec.template", "Rollout.argoproj.io=.spec.template"]) {
      const { stdout, stderr } = await inject1(rollout, {
        templatePath: [path, "Rollout=spec.template"],
        strict: true,
      });
      assert.equal(parse(stdout).spec.template.spec.hostAliases.length, 1);
      assert.match(stderr, /injected: 1 name\n$/);
    }
    const list = `apiVersion: argoproj.io/v1\nkind: RolloutList\nitems: [ { ${template} } ]`;
    const { stderr } = await inject1(list, { templatePath: ["Rollout.argoproj.io=spec.template"] });
    assert.match(stderr, /injected: 1 name\n$/);
    const other = await inject1(rollout, { templatePath: ["Rollout.example.com=spec.template"] });
    assert.equal(other.stdout, `${rollout}\n`);
  });

  it("a path may match several templates, or none", async () => {
    const tasks = "[ { template: { spec: {} } }, { template: { spec: {} } } ]";
    const set = `kind: JobSet\nspec: { jobs: ${tasks} }`;
    const { stdout } = await inject1(set, { templatePath: ["JobSet=spec.jobs[*].template"] });
    const { jobs } = parse(stdout).spec;
    assert.deepEqual(
      jobs.map((job: { template: { spec: { hostAliases: unknown[] } } }) => job.template.spec.hostAliases.length),
      [1, 1],
    );
    const reference = "kind: Rollout\nspec: { workloadRef: { name: web } }";
    const none = await inject1(reference, { templatePath: ["Rollout=spec.template"] });
    assert.deepEqual(none, {
      stdout: `${reference}\n`,
      stderr: "warning: not injected (no-pod-template): spec.template.spec is missing\n",
    });
  });

  it("lists are unfolded, whatever kind of list they are", async () => {
    const pod = "{ metadata: { name: p }, spec: {} }";
    for (const text of [
      `kind: PodList\nitems: [ ${pod}, ${pod} ]`,
      `kind: DeploymentList\nitems: [ { metadata: { name: p }, spec: { template: ${pod} } } ]`,
      `kind: List\nitems: [ { kind: PodList, items: [ ${pod} ] }, { kind: Service } ]`,
      `kind: List\nitems: [ { kind: Pod, metadata: { name: p }, spec: {} } ]`,
      `kind: PodTemplate\nmetadata: { name: p }\ntemplate: ${pod}`,
    ]) {
      const { stdout, stderr } = await inject1(text);
      assert.match(stderr, /^((Pod|Deployment|PodTemplate) p: injected: 1 name\n)+$/);
      assert.equal(stdout.match(/hostnames: \[ "a\.example\.com" \]/g)?.length, stderr.trimEnd().split("\n").length);
    }
  });
});
