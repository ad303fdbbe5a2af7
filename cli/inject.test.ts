import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { captured, switchback } from "#test/fakes/cli.ts";
import { aliasesOf, injectRig, POD } from "#test/fakes/inject-rig.ts";
import { type InjectFlags, inject } from "./inject.ts";

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

  it("takes the first names in order up to --max-names, and reports that", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com b.example.com c.example.com\n");
    const { stdout } = await run({ hosts, maxNames: 2 });
    assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com", "b.example.com"] }]);
    assert.match(stdout, /only the first 2 of 3 names: choose with switchback\.dev\/hosts/);
  });

  it("prints nothing if one of several objects cannot be injected", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    const filename = await files.file("two.yaml", `${POD}---\nkind: Deployment\n`);
    const { context, written } = captured();
    await assert.rejects(inject({ filename: [filename], hosts, namespace: "ours" }, context), {
      code: "input-invalid",
      message:
        /^\S+two\.yaml:5: document 2: not injected \(no-pod-template\): spec\.template.*; no output was written$/,
    });
    assert.deepEqual(written, { stdout: "", stderr: "" });
  });

  it("warns if there is nothing to inject, and prints the file", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    const filename = await files.file("service.yaml", "kind: Service\n");
    assert.deepEqual(await run({ filename: [filename], hosts }), {
      stdout: "kind: Service\n",
      stderr: `warning: no pods or workloads found\n`,
    });
  });

  it("reads standard input for -, given as an argument or with -f", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    for (const named of [["-"], ["-f", "-"]]) {
      const { code, stdout, stderr } = await switchback(["inject", ...named, "--hosts", hosts], {}, POD);
      assert.deepEqual([code, stderr], [0, "Pod p: injected: 1 names\n"]);
      assert.deepEqual(aliasesOf(stdout), [{ ip: "203.0.113.5", hostnames: ["a.example.com"] }]);
    }
  });

  it("prints at most four causes, and only the last one as the error", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    const filename = await files.file("six.yaml", Array(6).fill("kind: Deployment\n").join("---\n"));
    const { stderr, error = "" } = await outputOf({ filename: [filename], hosts });
    assert.equal(stderr.match(/^\S+six\.yaml:\d+: document [123]: not injected/gm)?.length, 3);
    assert.equal(stderr.split("\n").length, 4);
    assert.match(error, /^\S+six\.yaml:7: document 4: .*; no output was written \(and 2 more\)$/);
  });

  it("refuses a line of more than 480 bytes, unless --long-line allows it", async () => {
    const names = Array.from({ length: 30 }, (_, index) => `host-number-${index}.example.com`).join(" ");
    const hosts = await files.file("hosts", `203.0.113.5 ${names}\n`);
    for (const flags of [{}, { longLine: false }]) {
      await assert.rejects(run({ hosts, ...flags }), { code: "input-invalid", message: /no output was written/ });
    }
    assert.equal(aliasesOf((await run({ hosts, longLine: true })).stdout).length, 1);
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

  it("names ten of the parts that it leaves out, and counts the others", async () => {
    const text = `203.0.113.5 ok.example.com\n${"prose\n".repeat(12)}`;
    const { stderr } = await run({ hosts: await files.file("hosts", text) });
    const [tenth, rest] = stderr.split("\n").slice(9, 11);
    assert.match(tenth ?? "", /hosts:11: left out \(address-invalid\): "prose" is not an IP address$/);
    assert.match(rest ?? "", /^warning: \S+hosts: 2 more names and lines are left out$/);
  });
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
    assert.equal(flat.stderr, "Pod a: injected: 1 names\nPod b: injected: 1 names\nPod c: injected: 1 names\n");
    const deep = await run({ filename: [folder], hosts, recursive: true });
    assert.deepEqual(podsOf(deep.stdout), ["a", "b", "d", "e", "c"]);
  });

  it("pass through with a warning if they are templates of Helm; --strict refuses them", async () => {
    const template = `{{- if .Values.x }}\n${named("b")}{{ end }}\n`;
    const mixed = await files.folder("mixed", { "a.yaml": named("a"), "chart/b.yaml": template, "d.yaml": named("d") });
    const { stdout, stderr } = await run({ filename: [mixed], hosts, recursive: true });
    assert.ok(stdout.includes(`---\n${template}---\n`), stdout);
    assert.match(stderr, /^warning: \S+b\.yaml:1: document 1: .*\(yaml-invalid\)/m);
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
    await assert.rejects(run({ filename: [links], hosts }), { code: "input-invalid", message: /e\.yaml: ENOENT/ });
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
    return { stdout, stderr: stderr.replace(/^warning: \S+kind\.yaml(:\d: document 1)?: /gm, "warning: ") };
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
      `apiVersion: apps/v1\nkind: deployment\n${template}`,
      /kind "deployment" is not known to hold pods, but spec\.template .*; known kinds are Pod, /,
    ],
    [
      "a misspelt Pod",
      "apiVersion: v1\nkind: Pdo\nspec: { containers: [] }",
      /but it looks like a pod template; known kinds are Pod, /,
    ],
    [
      "a kind without a version",
      "kind: Deploymnet\nspec: { containers: [] }",
      /it looks like a pod template; .* Deployment/,
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

  it("a Knative Service, which refuses hostAliases", async () => {
    const text = `apiVersion: serving.knative.dev/v1\nkind: Service\n${template}`;
    const { stdout, stderr } = await inject1(text);
    assert.equal(stdout, `${text}\n`);
    assert.match(
      stderr,
      /\(host-aliases-refused\): Knative refuses hostAliases unless kubernetes\.podspec-hostaliases/,
    );
    assert.match(stderr, /--template-path Service\.serving\.knative\.dev=spec\.template injects it\n$/);
  });

  // Each has a `template` with a `spec`, but it is the template of an application, a virtual machine or a node.
  it("but without a warning if the template has no containers", async () => {
    for (const [apiVersion, kind, spec] of [
      ["argoproj.io/v1alpha1", "ApplicationSet", "{ project: default, source: { path: x } }"],
      ["kubevirt.io/v1", "VirtualMachine", "{ domain: { devices: {} }, volumes: [] }"],
      ["cluster.x-k8s.io/v1beta1", "MachineDeployment", "{ clusterName: c, version: v1.34.0 }"],
    ] as const) {
      const text = `apiVersion: ${apiVersion}\nkind: ${kind}\nspec: { template: { spec: ${spec} } }`;
      const { stdout, stderr } = await inject1(text);
      assert.deepEqual([stdout, stderr], [`${text}\n`, "warning: no pods or workloads found\n"]);
    }
  });

  it("but without a warning if nothing in it can be a pod", async () => {
    for (const kind of ["Service", "Certificate", "constructor", "toString"]) {
      const { stderr } = await inject1(`apiVersion: example.com/v1\nkind: ${kind}\nspec: { template: { a: 1 } }`);
      assert.equal(stderr, "warning: no pods or workloads found\n");
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
      assert.match(stderr, /document 1: injected: 1 names\n$/);
    }
    const list = `apiVersion: argoproj.io/v1\nkind: RolloutList\nitems: [ { ${template} } ]`;
    const { stderr } = await inject1(list, { templatePath: ["Rollout.argoproj.io=spec.template"] });
    assert.match(stderr, /document 1: injected: 1 names\n$/);
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
      assert.match(stderr, /^((Pod|Deployment|PodTemplate) p: injected: 1 names\n)+$/);
      assert.equal(stdout.match(/hostnames: \[ "a\.example\.com" \]/g)?.length, stderr.trimEnd().split("\n").length);
    }
  });
});
