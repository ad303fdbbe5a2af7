import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { type HostAlias, ingress, mapped, namespaceYaml, type Pod } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

const FIRST = ["api.example.com", "shop.example.com"];

let system: System;
let reader: string;
let count = 0;
/** The test's own namespace, which did not opt in. */
let namespace: string;
before(async () => {
  system = await startSystem({ values: { config: { map: { vanishSeconds: 0, guardHoldSeconds: 0 } } } });
  reader = await system.person();
});
beforeEach(async () => {
  count += 1;
  namespace = `plain-${count}`;
  await system.apply(`${namespaceYaml(namespace)}${ingress("shop", FIRST)}`);
  await settled(FIRST);
});
after(() => system?.stop());

/** Waits until exactly these names are published, and the webhook has them. */
async function settled(names: readonly string[]): Promise<void> {
  await until("the map", async () => [...(await system.publishedNames())].sort().join() === names.toSorted().join());
  await system.ready(names);
}

const template = (extra: object = {}, annotations: object = {}) => ({
  metadata: { labels: { app: "web" }, annotations },
  spec: { containers: [{ name: "c", image: "example.com/c:1" }], ...extra },
});
const head = (apiVersion: string, kind: string, name = "web") => ({ apiVersion, kind, metadata: { name, namespace } });
const selector = { matchLabels: { app: "web" } };

/** A workload of the kind; `pod` is its template. */
function workload(kind: string, pod: { metadata: object; spec: object } = template()): object {
  const once = { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } };
  switch (kind) {
    case "Pod":
      return { ...head("v1", "Pod"), ...pod, metadata: { ...pod.metadata, name: "web", namespace } };
    case "CronJob":
      return { ...head("batch/v1", kind), spec: { schedule: "0 0 1 1 *", jobTemplate: { spec: { template: once } } } };
    case "StatefulSet":
      return { ...head("apps/v1", kind), spec: { serviceName: "web", replicas: 1, selector, template: pod } };
    case "DaemonSet":
      return { ...head("apps/v1", kind), spec: { selector, template: pod } };
    default:
      return { ...head("apps/v1", kind), spec: { replicas: 1, selector, template: pod } };
  }
}

async function inject(input: object | string, ...flags: string[]) {
  const text = typeof input === "string" ? input : JSON.stringify(input);
  return await system.cli(["inject", "-f", "-", ...flags], { kubeconfig: reader, input: text });
}

/** The output of `inject` for an object. */
async function injected(input: object | string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await inject(input, ...flags);
  assert.equal(code, 0, stderr);
  return stdout;
}

async function apply(yaml: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await system.cluster.tool("kubectl", ["apply", ...flags, "-f", "-"], {
    input: yaml,
  });
  assert.equal(code, 0, stderr);
  assert.doesNotMatch(stderr, /duplicate|warning/i);
  return stdout;
}

interface Template {
  metadata: { annotations?: Record<string, string> };
  spec: { hostAliases?: HostAlias[] };
}

/** The pod template of an object, of the API server or of a file. */
function templateOf(object: { kind: string }): Template {
  const { kind, ...rest } = object as {
    kind: string;
    spec: { template: Template; jobTemplate: { spec: { template: Template } } };
  };
  if (kind === "Pod") return rest as unknown as Template;
  return kind === "CronJob" ? rest.spec.jobTemplate.spec.template : rest.spec.template;
}

async function live(kind: string, name = "web"): Promise<Template> {
  return templateOf(await system.json<{ kind: string }>("-n", namespace, "get", kind, name));
}

function aliasesIn(yaml: string): HostAlias[][] {
  return parseAllDocuments(yaml).map((document) => templateOf(document.toJS()).spec.hostAliases ?? []);
}

const byIp = (aliases: readonly HostAlias[] = []) => aliases.toSorted((a, b) => (a.ip < b.ip ? -1 : 1));

/** Asserts that each name is there once per address: no two of our components added the same line. */
function assertOnce(pod: Pod, names: readonly string[]): void {
  const lines = (pod.spec.hostAliases ?? []).flatMap(({ ip, hostnames }) => hostnames.map((name) => `${ip} ${name}`));
  assert.deepEqual(mapped(pod), names.toSorted());
  assert.equal(new Set(lines).size, lines.length, lines.join("\n"));
  assert.equal(lines.length, 2 * names.length, "IPv4 and IPv6");
}

describe("what `inject` prints from the live map", () => {
  for (const kind of ["Deployment", "StatefulSet", "DaemonSet", "CronJob"]) {
    for (const flags of [[], ["--server-side"]]) {
      it(`for a ${kind} is applied exactly by kubectl apply ${flags}, and again with another map`, async () => {
        const source = workload(kind, template({ hostAliases: [{ ip: "192.0.2.1", hostnames: ["own.example.com"] }] }));
        const first = await injected(source);
        await apply(first, ...flags);
        assert.deepEqual(byIp((await live(kind)).spec.hostAliases), byIp(aliasesIn(first)[0]));
        assert.match(await apply(first, ...flags), /unchanged|serverside-applied/);
        await system.apply(ingress("shop", ["api.example.com", "new.example.com"]));
        await settled(["api.example.com", "new.example.com"]);
        const second = await injected(source);
        await apply(second, ...flags);
        const { spec, metadata } = await live(kind);
        assert.deepEqual(byIp(spec.hostAliases), byIp(aliasesIn(second)[0]));
        assert.deepEqual(mapped({ spec } as Pod), ["api.example.com", "new.example.com", "own.example.com"]);
        assert.match(metadata.annotations?.["switchback.dev/injected"] ?? "", /new\.example\.com/);
        assert.deepEqual(aliasesIn(await injected(first)), aliasesIn(second), "as from the source");
      });
    }
  }

  it("for a Pod survives kubectl apply, and a second one with the same map", async () => {
    const printed = await injected(workload("Pod"));
    await apply(printed);
    assertOnce({ spec: (await live("Pod")).spec } as Pod, FIRST);
    assert.match(await apply(printed), /unchanged/);
    await apply(printed, "--server-side", "--force-conflicts");
    assertOnce({ spec: (await live("Pod")).spec } as Pod, FIRST);
  });

  it("for a List, and for several documents, has each of them", async () => {
    const items = ["Deployment", "CronJob", "Pod"].map((kind) => workload(kind));
    const config = { ...head("v1", "ConfigMap", "other"), data: { key: "value" } };
    await apply(await injected({ apiVersion: "v1", kind: "List", items: [...items, config] }));
    for (const kind of ["Deployment", "CronJob", "Pod"]) assertOnce({ spec: (await live(kind)).spec } as Pod, FIRST);
    assert.match(await system.kubectl("-n", namespace, "get", "cm", "other", "-o", "jsonpath={.data.key}"), /value/);
    const documents = [workload("StatefulSet"), config].map((object) => JSON.stringify(object)).join("\n---\n");
    await apply(await injected(documents), "--server-side", "--force-conflicts");
    assertOnce({ spec: (await live("StatefulSet")).spec } as Pod, FIRST);
  });

  it("keeps the meaning of hand-written YAML: octal modes, empty annotations, anchors elsewhere", async () => {
    await apply(
      await injected(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: ${namespace}
  labels: &labels { app: web }
spec:
  replicas: 1 # one is enough
  selector: { matchLabels: *labels }
  template:
    metadata:
      labels: *labels
      annotations:
    spec:
      containers: [ { name: c, image: example.com/c:1 } ]
      volumes: [ { name: v, configMap: { name: c, defaultMode: 0644 } } ]
`),
    );
    const { spec } = await live("Deployment");
    assertOnce({ spec } as Pod, FIRST);
    const { volumes } = spec as { volumes?: { configMap: { defaultMode: number } }[] };
    assert.equal(volumes?.[0]?.configMap.defaultMode, 0o644);
  });

  it("is refused to a user who may not read the map, with the reason", async () => {
    const kubeconfig = await system.cluster.kubeconfigFor({ clientCert: system.cluster.ca.client("stranger", []) });
    const input = JSON.stringify(workload("Deployment"));
    const { code, stdout, stderr } = await system.cli(["inject", "-f", "-"], { kubeconfig, input });
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /configmaps "[a-z-]+" is forbidden/);
  });
});

describe("what `inject` prints from a hosts file", () => {
  it("needs no cluster, and is applied as it is", async () => {
    const hosts = join(system.cluster.folder, "hosts");
    await writeFile(hosts, "# ours\n203.0.113.5 a.example.com b.example.com\n203.0.113.6 c.example.com # more\n");
    const env = { kubeconfig: "/nonexistent", input: JSON.stringify(workload("Deployment")) };
    const { code, stdout, stderr } = await system.cli(["inject", "-f", "-", "--hosts", hosts], env);
    assert.equal(code, 0, stderr);
    await apply(stdout);
    assert.deepEqual((await live("Deployment")).spec.hostAliases, [
      { ip: "203.0.113.5", hostnames: ["a.example.com", "b.example.com"] },
      { ip: "203.0.113.6", hostnames: ["c.example.com"] },
    ]);
  });
});

describe("a baked template in a labelled namespace", () => {
  it("gives pods that the webhook updates, with each name once", async () => {
    await system.kubectl("label", "namespace", namespace, "switchback.dev/inject=enabled");
    await apply(await injected(workload("Deployment")));
    const pods = async (size: number) => {
      let items: Pod[] = [];
      await until(`${size} pods`, async () => {
        items = (await system.json<{ items: Pod[] }>("-n", namespace, "get", "pods", "-l", "app=web")).items;
        return items.length === size;
      });
      return items;
    };
    const [first] = await pods(1);
    assert.ok(first);
    assertOnce(first, FIRST);
    const names = ["api.example.com", "later.example.com"];
    await system.apply(ingress("shop", names));
    await settled(names);
    await system.kubectl("-n", namespace, "scale", "deployment", "web", "--replicas=2");
    const second = (await pods(2)).find(({ metadata }) => metadata.name !== first.metadata.name);
    assert.ok(second);
    assertOnce(second, names);
    assert.deepEqual(mapped({ spec: (await live("Deployment")).spec } as Pod), FIRST, "the template is as it was");
  });
});

describe("what does not fit into one alias per address", () => {
  it("is refused with a hint if it is over 480 bytes; --long-line accepts it", async () => {
    const many = Array.from({ length: 30 }, (_, index) => `a-rather-long-name-${index}.example.com`);
    await system.apply(ingress("shop", many));
    await settled(many);
    const refused = await inject(workload("Deployment"));
    assert.deepEqual([refused.code, refused.stdout], [2, ""]);
    assert.match(refused.stderr, /480.*switchback\.dev\/hosts.*--long-line/s);
    const long = await inject(workload("Deployment"), "--long-line");
    assert.match(long.stderr, /injected: 30 names; .* over 480: musl/);
    await apply(long.stdout);
    assertOnce({ spec: (await live("Deployment")).spec } as Pod, many);
    const chosen = template({}, { "switchback.dev/hosts": "a-rather-long-name-1.example.com, gone.example.com" });
    await apply(await injected(workload("Deployment", chosen)));
    assertOnce({ spec: (await live("Deployment")).spec } as Pod, ["a-rather-long-name-1.example.com"]);
  });

  it("is refused if the user has an alias of that address", async () => {
    const args = ["-n", NAMESPACE, "get", "svc", "switchback-ingress-nginx", "-o", "jsonpath={.spec.clusterIP}"];
    const ip = await system.kubectl(...args);
    const own = template({ hostAliases: [{ ip, hostnames: ["own.example.com"] }] });
    const { code, stdout, stderr } = await inject(workload("Deployment", own));
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /Deployment \S+\/web: not injected \(address-has-alias\)/);
  });

  it("adds nothing if the user maps all names already: theirs win", async () => {
    const own = template({ hostAliases: [{ ip: "192.0.2.1", hostnames: FIRST }] });
    await apply(await injected(workload("Deployment", own)));
    assert.deepEqual((await live("Deployment")).spec.hostAliases, [{ ip: "192.0.2.1", hostnames: FIRST }]);
  });
});
