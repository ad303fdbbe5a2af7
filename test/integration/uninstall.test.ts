import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { OBJECTS } from "../published.ts";
import type { AuditEntry } from "./audit.ts";
import { ingress } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// The uninstall on a real API server, with the account of the chart's hook and the rights that the chart gives it.

const NAME = "a.example.com";
const ENABLED = "switchback.dev/inject=enabled";

let system: System;
before(async () => {
  system = await startSystem({ audit: true });
  for (const name of ["shop", "other"]) {
    await system.kubectl("create", "namespace", name);
    await system.kubectl("label", "namespace", name, ENABLED);
  }
  // Installed again, because only now the namespace exists in which the Role is bound.
  await system.install({ config: { restart: { namespaces: ["shop"] } }, agent: { enabled: true } });
  await system.apply(ingress("names", [NAME]));
  await system.ready([NAME]);
  const containers = [{ name: "main", image: "example.com/none" }];
  const deployment = (name: string, spec: object = {}) => ({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { namespace: "shop", name },
    spec: {
      selector: { matchLabels: { app: name } },
      // No node here makes a new pod ready, so a rolling update would never remove the old one.
      strategy: { type: "Recreate" },
      template: { metadata: { labels: { app: name } }, spec: { containers, ...spec } },
    },
  });
  await applyAll(deployment("web"), pod("other", "bare"));
  const hostAliases = [{ ip: await frontAddress(), hostnames: ["b.example.com"] }];
  await applyAll(deployment("baked", { hostAliases }));
  await until("the pods", async () => (await holders()).length === 3);
});
after(() => system?.stop());

const pod = (namespace: string, name: string, hostAliases?: object[]) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { namespace, name },
  spec: { containers: [{ name: "main", image: "example.com/none" }], ...(hostAliases && { hostAliases }) },
});

async function applyAll(...objects: object[]): Promise<void> {
  await system.apply(objects.map((object) => JSON.stringify(object)).join("\n---\n"));
}

async function frontAddress(): Promise<string> {
  const args = ["-n", NAMESPACE, "get", "service", "switchback-ingress-nginx", "-o", "jsonpath={.spec.clusterIP}"];
  return await system.kubectl(...args);
}

/** Pods with the front's address in their spec, as `namespace/name`. */
async function holders(): Promise<string[]> {
  const address = await frontAddress();
  const { items } = await system.json<{
    items: { metadata: { namespace: string; name: string }; spec: { hostAliases?: { ip: string }[] } }[];
  }>("get", "pods", "-A");
  return items
    .filter(({ spec }) => spec.hostAliases?.some(({ ip }) => ip === address))
    .map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
}

/** Whether the webhook configuration is still there. */
async function isCalled(): Promise<boolean> {
  const names = await system.kubectl("get", "mutatingwebhookconfigurations", "-o", "name");
  return names.includes("switchback-webhook");
}

/** Verb and resource of every rule of the hooks that ran. */
const granted: string[] = [];

interface HookObject {
  kind: string;
  rules?: { verbs: string[]; resources: string[] }[];
  metadata: { name: string };
  spec: { template: { spec: { serviceAccountName: string; containers: { command: string[] }[] } } };
}

/** Runs the Job of a hook. Its account and rights are created as Helm does it, and its command runs here. */
async function runHook(name: string, ...more: string[]) {
  const { stdout } = await system.cluster.tool("helm", ["get", "hooks", "switchback", "-n", NAMESPACE], {});
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as HookObject);
  const ours = objects.filter((object) => object?.metadata.name === name);
  await applyAll(...ours.filter(({ kind }) => kind !== "Job"));
  for (const { rules = [] } of ours) {
    granted.push(
      ...rules.flatMap(({ verbs, resources }) => verbs.flatMap((verb) => resources.map((it) => `${verb} ${it}`))),
    );
  }
  const job = ours.find(({ kind }) => kind === "Job");
  assert.ok(job);
  // The restricted Pod Security level must admit the pod.
  const { template } = job.spec;
  await system.kubectl(
    "label",
    "namespace",
    "restricted",
    "pod-security.kubernetes.io/enforce=restricted",
    "--overwrite",
  );
  const metadata = { namespace: "restricted", name };
  const spec = { ...template.spec, serviceAccountName: "default" };
  const { code, stderr } = await system.cluster.tool("kubectl", ["create", "--dry-run=server", "-f", "-"], {
    input: JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata, spec }),
  });
  assert.equal(code, 0, stderr);
  const [, , ...args] = template.spec.containers[0]?.command ?? [];
  const token = await system.cluster.tokenFor(`${NAMESPACE}/${template.spec.serviceAccountName}`);
  return await system.cli([...args, ...more], { kubeconfig: await system.cluster.kubeconfigFor({ token }) });
}

describe("uninstall --check", () => {
  it("says what would happen, changes nothing, and fails because pods hold addresses", async () => {
    const { code, stdout, stderr } = await system.cli(["uninstall", "--check"]);
    assert.equal(code, 1);
    assert.match(
      stdout,
      new RegExp(`that the uninstall frees: ${await frontAddress()} \\(switchback-ingress-nginx\\)`),
    );
    assert.match(stdout, /are restarted:\n {5}shop\/Deployment\/baked \(.*\)\n {5}shop\/Deployment\/web \(web-\S+\)\n/);
    assert.match(stdout, /other\/Pod\/bare: nothing recreates it: delete it/);
    assert.match(stderr, /^switchback: 3 pods hold addresses of Switchback/);
    assert.ok(await isCalled());
    assert.equal((await holders()).length, 3);
  });

  it("says where it looked if there is no Switchback", async () => {
    const { code, stderr } = await system.cli(["uninstall", "--check", "--namespace", "default"]);
    assert.equal(code, 2);
    assert.match(stderr, /no ConfigMap switchback-config in the namespace default.*--namespace/);
  });

  it("is all that `uninstall` does if it has no terminal to ask on", async () => {
    const { code, stdout, stderr } = await system.cli(["uninstall"], { input: "y\n" });
    assert.equal(code, 1);
    assert.match(stdout, /3 pods hold/);
    assert.match(stderr, /^switchback: there is no terminal to ask on: nothing was changed\. --yes /);
    assert.ok(await isCalled());
  });
});

describe("the hook before anything is deleted", () => {
  before(() => system.kubectl("create", "namespace", "restricted"));

  it("removes the webhook, restarts what it may, and fails because of the rest", async () => {
    const { code, stdout, stderr } = await runHook("switchback-uninstall", "--timeout", "20");
    assert.equal(code, 1, stdout);
    assert.match(stdout, /^the webhook configuration switchback-webhook is gone/);
    assert.match(stdout, /\nshop\/Deployment\/web: restarted\n/);
    assert.match(stdout, /\n {2}shop\/Deployment\/baked \(.*\): its own template has them/);
    assert.match(stdout, /\n {2}other\/Pod\/bare: nothing recreates it: delete it\n/);
    assert.match(stderr, /^switchback: 2 pods hold addresses of Switchback: nothing more is removed/);
    assert.equal(await isCalled(), false);
    assert.ok(!(await holders()).some((name) => name.includes("web")));
    assert.ok(await frontAddress(), "who still holds it is still served");
  });

  it("asks the agents to leave, and waits until each has done so", async () => {
    await system.kubectl("-n", "shop", "delete", "deployment", "baked");
    await system.kubectl("-n", "other", "delete", "pod", "bare", "--now");
    await until("no holder", async () => (await holders()).length === 0);
    const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" };
    const metadata = { namespace: "switchback-agent", name: "switchback-agent-node-1", labels };
    await applyAll({ apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata });
    const silent = await runHook("switchback-uninstall", "--timeout", "1");
    assert.equal(silent.code, 1);
    assert.match(silent.stderr, /agents still have names in the hosts files of running pods: switchback-agent-node-1/);
    const args = ["-n", "switchback-agent", "get", "daemonset", "switchback-agent", "-o", "yaml"];
    assert.match(await system.kubectl(...args), /switchback\.dev\/leaving: "true"/);
    await system.kubectl("-n", "switchback-agent", "delete", "lease", "switchback-agent-node-1");
  });

  it("knows the address of a front Service that somebody has deleted", async () => {
    await applyAll(pod("other", "late", [{ ip: await frontAddress(), hostnames: ["c.example.com"] }]));
    await system.end(await system.leader());
    await system.kubectl("-n", NAMESPACE, "delete", "service", "switchback-ingress-nginx");
    const { code, stderr } = await runHook("switchback-uninstall");
    assert.equal(code, 1);
    assert.match(stderr, /1 pod holds addresses/);
    const next = await system.start("controller");
    await until("the front Service", async () => (await frontAddress()) !== "");
    await system.end(next);
    await system.kubectl("-n", "other", "delete", "pod", "late", "--now");
  });

  it("once no pod holds an address, stops the controller and leaves nothing that was created at run time", async () => {
    const made = [
      "service/switchback-ingress-nginx",
      `configmap/${OBJECTS.map}`,
      `configmap/${OBJECTS.targets}`,
      `secret/${OBJECTS.ca}`,
      `secret/${OBJECTS.serving}`,
    ];
    const before = await remaining();
    assert.deepEqual(
      made.filter((name) => !before.includes(name)),
      [],
      "what it is about was there",
    );
    // The pods of the Deployment are those of nobody: the processes of this test are the controllers.
    for (const controller of [...system.controllers]) await system.end(controller);
    const { code, stdout, stderr } = await runHook("switchback-uninstall");
    assert.equal(code, 0, stderr);
    assert.match(stdout, /no pod holds an address of Switchback\nswitchback-controller has no replicas now\ndeleted /);
    const args = ["uninstall", "switchback", "-n", NAMESPACE, "--no-hooks"];
    const uninstalled = await system.cluster.tool("helm", args, {});
    assert.equal(uninstalled.code, 0, uninstalled.stderr);
    assert.deepEqual(await remaining(), []);
  });
});

describe("the hook's rights", () => {
  const isHook = ({ user }: AuditEntry) => /:switchback-uninstall$/.test(user.username);

  it("are enough, and every one of them was used", async () => {
    const entries = (await system.audit.entries()).filter(isHook);
    const forbidden = entries.filter(({ responseStatus }) => responseStatus?.code === 403);
    assert.deepEqual(
      forbidden.map(({ verb, requestURI }) => `${verb} ${requestURI}`),
      [],
    );
    const used = new Set(
      entries.map(({ verb, objectRef: { resource, subresource } = { resource: "" } }) =>
        [`${verb} ${resource}`, ...(subresource ? [subresource] : [])].join("/"),
      ),
    );
    assert.deepEqual([...used].sort(), [
      "delete configmaps",
      "delete leases",
      "delete mutatingwebhookconfigurations",
      "delete secrets",
      "delete services",
      "get configmaps",
      "get daemonsets",
      "get deployments",
      "list leases",
      "list pods",
      "list services",
      "patch daemonsets",
      "patch deployments",
      "patch deployments/scale",
    ]);
    for (const right of granted.filter((each) => !/statefulsets/.test(each))) assert.ok(used.has(right), right);
  });
});

const KINDS = "services,configmaps,secrets,leases.coordination.k8s.io,deployments,jobs";

/** Our objects that are in the namespace. */
async function remaining(): Promise<string[]> {
  const names = (await system.kubectl("-n", NAMESPACE, "get", KINDS, "-o", "name")).split("\n");
  return names.filter((name) => name.includes("switchback")).map((name) => name.replace(/\.[^/]*/, ""));
}
