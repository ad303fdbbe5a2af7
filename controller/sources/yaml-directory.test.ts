import assert from "node:assert/strict";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { View } from "./types.ts";
import { directorySource } from "./yaml-directory.ts";

/** This interval is so long that a passing test must have received the change from the watch. */
const NO_SWEEP_MS = 60_000;

function ingress(name: string, ...hosts: string[]): string {
  const rules = hosts.map((host) => `    - host: ${host}\n`).join("");
  return `kind: Ingress\nmetadata:\n  name: ${name}\n  namespace: shop\nspec:\n  rules:\n${rules}`;
}

/** A source for its own directory, and its reports so far. */
async function follow(t: TestContext, files: Record<string, string>, sweepMs = NO_SWEEP_MS) {
  const parent = await mkdtemp(join(tmpdir(), "switchback-"));
  const directory = join(parent, "objects");
  await mkdir(directory);
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const claims = new Map<string, readonly View[]>();
  const synced = { times: 0 };
  const source = directorySource({ directory, sweepMs });
  source.start(
    (object, own) => {
      if (own.length === 0) claims.delete(object);
      else claims.set(object, own);
    },
    () => {
      synced.times += 1;
    },
  );
  t.after(async () => {
    await source.stop();
    await rm(parent, { recursive: true });
  });
  const hosts = () =>
    [...claims.values()]
      .flat()
      .map(({ hostname }) => hostname)
      .sort();
  const problems = () => (source.state()[0]?.problems ?? []).map(({ place, code }) => `${place}: ${code}`);
  return { directory, source, claims, synced, hosts, problems, path: (name: string) => join(directory, name) };
}

/** Waits for the expected value. Fails with the last value. */
async function eventually<T>(look: () => T, expected: T): Promise<void> {
  for (let tries = 0; tries < 100; tries += 1) {
    try {
      return assert.deepEqual(look(), expected);
    } catch {
      await sleep(20);
    }
  }
  assert.deepEqual(look(), expected);
}

test("files become claims; objects of other kinds can be queried; synced is reported once", async (t) => {
  const { source, claims, synced, hosts } = await follow(t, {
    "a.yaml": `${ingress("web", "a.example.com")}---\nkind: Namespace\nmetadata: {name: shop}\n`,
    "b.yml": ingress("api", "b.example.com"),
    "notes.txt": "kind: no YAML of ours",
  });
  await eventually(() => synced.times, 1);
  assert.deepEqual(hosts(), ["a.example.com", "b.example.com"]);
  assert.deepEqual(claims.get("shop/web"), [
    {
      hostname: "a.example.com",
      hints: { className: undefined, addresses: [], admitted: false },
      from: { kind: "Ingress", namespace: "shop", name: "web", file: "a.yaml" },
      created: "",
    },
  ]);
  assert.deepEqual(
    source.objects().map(({ raw }) => raw.kind),
    ["Ingress", "Namespace", "Ingress"],
  );
  assert.deepEqual(source.state(), [{ name: source.state()[0]?.name, synced: true, problems: [] }]);
});

test("Gateways and routes claim hostnames even without a status; routes follow changes of their Gateway", async (t) => {
  const of = (kind: string, name: string, spec: object) =>
    JSON.stringify({ apiVersion: "gateway.networking.k8s.io/v1", kind, metadata: { namespace: "shop", name }, spec });
  const gateway = (hostname: string) =>
    of("Gateway", "gw", {
      gatewayClassName: "nginx",
      listeners: [{ name: "web", port: 80, protocol: "HTTP", hostname }],
    });
  const route = of("HTTPRoute", "web", { parentRefs: [{ name: "gw" }], hostnames: ["a.example.com", "b.example.net"] });
  const { synced, claims, path } = await follow(t, { "gw.yaml": gateway("*.example.com"), "route.yaml": route });
  await eventually(() => synced.times, 1);
  const leading = () =>
    [...claims.values()]
      .flat()
      .filter(({ hints }) => "className" in hints)
      .map(({ from, hostname }) => `${from.kind} ${from.file} ${hostname}`);
  assert.deepEqual(leading(), ["Gateway gw.yaml *.example.com", "HTTPRoute route.yaml a.example.com"]);
  await writeFile(path("gw.yaml"), gateway("*.example.net"));
  await eventually(leading, ["Gateway gw.yaml *.example.net", "HTTPRoute route.yaml b.example.net"]);
  await rm(path("gw.yaml"));
  await eventually(leading, []);
  assert.deepEqual([...claims.keys()], ["HTTPRoute shop/web"]);
});

test("ListenerSets of files claim their names while their Gateway allows them", async (t) => {
  const of = (kind: string, name: string, spec: object, apiVersion = "gateway.networking.k8s.io/v1") =>
    JSON.stringify({ apiVersion, kind, metadata: { namespace: "shop", name }, spec });
  const gateway = (from: string) =>
    of("Gateway", "gw", { gatewayClassName: "nginx", allowedListeners: { namespaces: { from } } });
  const listeners = [{ name: "web", port: 80, protocol: "HTTP", hostname: "set.example.com" }];
  const spec = { parentRef: { name: "gw" }, listeners };
  const set = of("ListenerSet", "set", spec);
  const experimental = of("XListenerSet", "set", spec, "gateway.networking.x-k8s.io/v1alpha1");
  const files = { "gw.yaml": gateway("Same"), "set.yaml": set, "x.yaml": experimental };
  const { synced, claims, path } = await follow(t, { ...files, "odd.yaml": of("XListenerSet", "odd", spec) });
  await eventually(() => synced.times, 1);
  const outcome = () =>
    [...claims.values()].flat().map(({ from, hints }) => `${from.kind} ${"code" in hints ? hints.code : "leads"}`);
  assert.deepEqual(outcome(), ["ListenerSet leads", "XListenerSet leads"]);
  await rm(path("x.yaml"));
  await eventually(outcome, ["ListenerSet leads"]);
  await writeFile(path("gw.yaml"), gateway("None"));
  await eventually(outcome, ["ListenerSet listener-set-not-allowed"]);
  await rm(path("set.yaml"));
  await eventually(outcome, []);
});

test("an Ingress or a Namespace of another API group is another kind", async (t) => {
  const knative = "apiVersion: networking.internal.knative.dev/v1alpha1\n";
  const own = "apiVersion: networking.k8s.io/v1\n";
  const isDefault = "metadata: {name: other, annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}";
  const { claims, synced, hosts, problems } = await follow(t, {
    "class.yaml": `apiVersion: example.com/v1\nkind: IngressClass\n${isDefault}\n`,
    "knative.yaml": knative + ingress("web", "knative.example.com"),
    "web.yaml": own + ingress("web", "web.example.com"),
    "bare.yaml": ingress("bare", "bare.example.com"),
  });
  await eventually(() => synced.times, 1);
  assert.deepEqual(hosts(), ["bare.example.com", "web.example.com"]);
  assert.deepEqual(problems(), [], "the two with one name are not one object that is defined twice");
  const [claim] = claims.get("shop/web") ?? [];
  assert.deepEqual(claim?.hints, { className: undefined, addresses: [], admitted: false });
});

test("new, changed and deleted files are followed", async (t) => {
  const { synced, hosts, path } = await follow(t, { "a.yaml": ingress("web", "a.example.com") });
  await eventually(() => synced.times, 1);
  await writeFile(path("b.yaml"), ingress("api", "b.example.com"));
  await eventually(hosts, ["a.example.com", "b.example.com"]);
  await writeFile(path("a.yaml"), ingress("web", "c.example.com", "d.example.com"));
  await eventually(hosts, ["b.example.com", "c.example.com", "d.example.com"]);
  await rm(path("b.yaml"));
  await eventually(hosts, ["c.example.com", "d.example.com"]);
  assert.equal(synced.times, 1);
});

test("a file that is replaced by another of the same size is read again", async (t) => {
  const { synced, hosts, directory, path } = await follow(t, { "a.yaml": ingress("web", "a.example.com") });
  await eventually(() => synced.times, 1);
  await writeFile(join(directory, "tmp"), ingress("web", "b.example.com"));
  await rename(join(directory, "tmp"), path("a.yaml"));
  await eventually(hosts, ["b.example.com"]);
});

test("a file that becomes invalid keeps its valid objects and reports the place; other files still work", async (t) => {
  const { synced, hosts, problems, path } = await follow(t, {
    "a.yaml": ingress("web", "a.example.com"),
    "b.yaml": ingress("api", "b.example.com"),
  });
  await eventually(() => synced.times, 1);
  await writeFile(path("a.yaml"), "kind: Ingress\nmetadata: {name: web\n");
  await eventually(problems, ["a.yaml:3: yaml-invalid"]);
  assert.deepEqual(hosts(), ["a.example.com", "b.example.com"]);
  await writeFile(path("b.yaml"), ingress("api", "c.example.com"));
  await eventually(hosts, ["a.example.com", "c.example.com"]);
  await writeFile(path("a.yaml"), ingress("web", "d.example.com"));
  await eventually(hosts, ["c.example.com", "d.example.com"]);
  assert.deepEqual(problems(), []);
});

test("if a document of a file becomes invalid, changes of the others apply, and no object is removed", async (t) => {
  const { synced, hosts, problems, path } = await follow(t, {
    "a.yaml": [
      ingress("one", "a.example.com"),
      ingress("two", "b.example.com"),
      ingress("three", "c.example.com"),
    ].join("---\n"),
  });
  await eventually(() => synced.times, 1);
  await writeFile(
    path("a.yaml"),
    [ingress("one", "new.example.com"), "kind: Ingress\nmetadata: {name\n"].join("---\n"),
  );
  await eventually(problems, ["a.yaml:11: yaml-invalid"]);
  await eventually(hosts, ["b.example.com", "c.example.com", "new.example.com"]);
  await writeFile(path("a.yaml"), ingress("one", "new.example.com"));
  await eventually(hosts, ["new.example.com"]);
});

test("a file that is invalid from the start is reported, and the rest is read", async (t) => {
  const { synced, hosts, problems } = await follow(t, {
    "a.yaml": "a: [",
    "b.yaml": `${ingress("api", "b.example.com")}---\nkind: Pod\n`,
    "c.yaml": "kind: Ingress\nmetadata: {name: c, labels: {switchback.dev/injekt: enabled}}\nspec:\n  rules: all\n",
  });
  await eventually(() => synced.times, 1);
  assert.deepEqual(hosts(), ["b.example.com"]);
  assert.deepEqual(problems(), [
    "a.yaml:1: yaml-invalid",
    "b.yaml:9: no-name",
    'c.yaml:2: Ingress c: metadata.labels["switchback.dev/injekt"]: unknown-key',
    "c.yaml:4: Ingress c: spec.rules: wrong-type",
  ]);
});

test("an unreadable directory, link or replaced file is reported and removes no object", async (t) => {
  const { synced, hosts, problems, path, directory } = await follow(t, { "a.yaml": ingress("web", "a.example.com") });
  await eventually(() => synced.times, 1);
  await mkdir(path("folder.yaml"));
  await symlink(join(directory, "nothing"), path("link.yaml"));
  await mkdir(join(directory, "tmp"));
  await writeFile(path("b.yaml"), ingress("api", "b.example.com"));
  await eventually(hosts, ["a.example.com", "b.example.com"]);
  await eventually(problems, ["folder.yaml: file-unreadable", "link.yaml: file-unreadable"]);
  await rename(path("a.yaml"), join(directory, "tmp", "a.yaml"));
  await rename(join(directory, "tmp"), path("a.yaml"));
  await eventually(problems, ["a.yaml: file-unreadable", "folder.yaml: file-unreadable", "link.yaml: file-unreadable"]);
  assert.deepEqual(hosts(), ["a.example.com", "b.example.com"]);
});

test("if an object is defined twice, the last definition is used, and the other one is reported", async (t) => {
  const { synced, hosts, problems, path } = await follow(t, {
    "a.yaml": ingress("web", "a.example.com"),
    "b.yaml": ingress("web", "b.example.com"),
  });
  await eventually(() => synced.times, 1);
  assert.deepEqual(hosts(), ["b.example.com"]);
  assert.deepEqual(problems(), ["a.yaml:3: Ingress shop/web: metadata.name: duplicate-object"]);
  await rm(path("b.yaml"));
  await eventually(hosts, ["a.example.com"]);
  assert.deepEqual(problems(), []);
});

test("a removed directory removes no objects; once recreated, it is followed", async (t) => {
  const { synced, hosts, problems, path, directory } = await follow(
    t,
    { "a.yaml": ingress("web", "a.example.com") },
    50,
  );
  await eventually(() => synced.times, 1);
  await rm(directory, { recursive: true });
  await eventually(problems, [`${directory}: directory-unreadable`]);
  assert.deepEqual(hosts(), ["a.example.com"]);
  await mkdir(directory);
  await writeFile(path("b.yaml"), ingress("api", "b.example.com"));
  await eventually(hosts, ["b.example.com"]);
  assert.deepEqual(problems(), []);
});

test("a directory that does not exist yet counts as not synced, not as empty", async (t) => {
  const parent = await mkdtemp(join(tmpdir(), "switchback-"));
  const directory = join(parent, "later");
  const source = directorySource({ directory, sweepMs: 50 });
  let synced = 0;
  source.start(
    () => {},
    () => {
      synced += 1;
    },
  );
  t.after(async () => {
    await source.stop();
    await rm(parent, { recursive: true });
  });
  await eventually(() => source.state()[0]?.problems.map(({ code }) => code), ["directory-unreadable"]);
  assert.equal(source.state()[0]?.synced, false);
  assert.equal(synced, 0);
  await mkdir(directory);
  await eventually(() => synced, 1);
});

test("an Ingress without a class gets the default IngressClass of the files", async (t) => {
  const parent = await mkdtemp(join(tmpdir(), "switchback-"));
  await writeFile(join(parent, "a.yaml"), ingress("web", "a.example.com"));
  const source = directorySource({ directory: parent, sweepMs: NO_SWEEP_MS });
  t.after(async () => {
    await source.stop();
    await rm(parent, { recursive: true });
  });
  let lastHints: View["hints"] | undefined;
  source.start(
    (_object, [claim]) => {
      lastHints = claim?.hints;
    },
    () => {},
  );
  await eventually(() => lastHints, { className: undefined, addresses: [], admitted: false });
  const annotations = '{ingressclass.kubernetes.io/is-default-class: "true"}';
  await writeFile(
    join(parent, "class.yaml"),
    `kind: IngressClass\nmetadata: {name: nginx, annotations: ${annotations}}\n`,
  );
  await eventually(() => lastHints, { className: "nginx", addresses: [], admitted: false });
});

test("a stopped source reports nothing", async (t) => {
  const { source, hosts, path, synced } = await follow(t, { "a.yaml": ingress("web", "a.example.com") }, 20);
  await eventually(() => synced.times, 1);
  await source.stop();
  await writeFile(path("b.yaml"), ingress("api", "b.example.com"));
  await sleep(150);
  assert.deepEqual(hosts(), ["a.example.com"]);
});
