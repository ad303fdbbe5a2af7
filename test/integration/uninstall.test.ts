import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { OBJECTS } from "../published.ts";
import { ingress, mapped, namespaceYaml, type Pod, podObject, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// One uninstall on a real API server. No node runs here, so Helm's hook cannot start, and the test runs its command
// with the account and the rights that the chart gives it. Then it runs the commands that the notes and
// docs/uninstalling.md give for this case.

const PAGE = readFileSync(new URL("../../docs/uninstalling.md", import.meta.url), "utf8");
const NAME = "a.example.com";
const HOOK = "switchback-uninstall";
const WEBHOOK = "mutatingwebhookconfiguration.admissionregistration.k8s.io/switchback-webhook";

let system: System;
before(async () => {
  const namespaces = namespaceYaml("shop", "enabled") + namespaceYaml("other", "enabled") + namespaceYaml("restricted");
  const values = { config: { restart: { namespaces: ["shop"] } }, agent: { enabled: true } };
  system = await startSystem({ audit: true, before: namespaces, values });
  await system.kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted");
  await system.apply(ingress("names", [NAME]));
  await system.ready([NAME]);
  // No node here makes a new pod ready, so a rolling update would never remove the old one.
  await system.apply(workload("Deployment", "web", "shop", { spec: { strategy: { type: "Recreate" } } }));
  await system.apply(JSON.stringify(podObject("other", "bare")));
  await until("the pods", async () => (await holders()).length === 2);
});
after(() => system?.stop());

/** The namespaces of the pods that hold an address of Switchback. */
async function holders(): Promise<string[]> {
  const { items } = await system.json<{ items: (Pod & { metadata: { namespace: string } })[] }>("get", "pods", "-A");
  return items.filter((pod) => mapped(pod).includes(NAME)).map(({ metadata }) => metadata.namespace);
}

/** Our objects in the cluster and in our namespace. */
async function remaining(): Promise<string[]> {
  const wide = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations";
  const created = "services,configmaps,secrets,leases";
  const installed = "deployments,serviceaccounts,roles,rolebindings,jobs,pods";
  const listed = await system.kubectl("-n", NAMESPACE, "get", `${wide},${created},${installed}`, "-o", "name");
  return listed.split("\n").filter((name) => name.includes("switchback"));
}

const helm = (...args: string[]) => system.cluster.tool("helm", args, {});

/** The commands of a text that begin with `program`. */
const commands = (text: string, program: string): string[][] =>
  [...text.matchAll(new RegExp(`^ +${program} (.*)$`, "gm"))].map(([, args = ""]) => args.split(" "));

interface HookObject {
  readonly kind: string;
  readonly rules?: readonly { readonly verbs: string[]; readonly resources: string[] }[];
  readonly metadata: { readonly name: string };
  readonly spec: { readonly template: { readonly spec: { readonly containers: { readonly command: string[] }[] } } };
}

/** Verb and resource of every rule of the hook. */
const granted = new Set<string>();

/** Runs the command of the hook. Its account and rights exist only meanwhile, as with Helm. */
async function runHook(...more: string[]) {
  const { stdout } = await helm("get", "hooks", "switchback", "-n", NAMESPACE);
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as HookObject);
  const ours = objects.filter((object) => object?.metadata.name === HOOK);
  for (const { verbs, resources } of ours.flatMap(({ rules = [] }) => rules))
    for (const verb of verbs) for (const resource of resources) granted.add(`${verb} ${resource}`);
  const pod = ours.find(({ kind }) => kind === "Job")?.spec.template.spec ?? assert.fail(stdout);
  // The restricted Pod Security Standard admits the pod.
  const spec = { ...pod, serviceAccountName: "default" };
  const metadata = { namespace: "restricted", name: HOOK };
  await system.apply(JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata, spec }));
  const rights = ours.filter(({ kind }) => kind !== "Job").map((object) => JSON.stringify(object));
  await system.apply(rights.join("\n---\n"));
  const token = await system.cluster.tokenFor(`${NAMESPACE}/${HOOK}`);
  const kubeconfig = await system.cluster.kubeconfigFor({ token });
  const [, , ...args] = pod.containers[0]?.command ?? [];
  const result = await system.cli([...args, ...more], { kubeconfig });
  await system.cluster.tool("kubectl", ["delete", "-f", "-"], { input: rights.join("\n---\n") });
  return result;
}

it("the check lists the pods that hold addresses, fails and changes nothing", async () => {
  const { code, stdout, stderr } = await system.cli(["uninstall", "--check"]);
  assert.equal(code, 1);
  assert.match(stdout, /are restarted:\n {5}shop\/Deployment\/web \(web-\S+\)\n/);
  assert.match(stdout, /other\/Pod\/bare: nothing recreates it: delete it/);
  assert.match(stderr, /^switchback: 2 pods hold addresses of Switchback/);
  assert.ok((await remaining()).includes(WEBHOOK));
  assert.equal((await holders()).length, 2);
});

it("if the hook cannot start, helm uninstall fails and deletes nothing", async () => {
  const { code, stdout } = await helm("uninstall", "switchback", "--namespace", NAMESPACE, "--timeout", "5s");
  assert.equal(code, 1, stdout);
  const left = await remaining();
  for (const name of [WEBHOOK, "deployment.apps/switchback-proxy"]) assert.ok(left.includes(name), left.join());
});

it("the hook removes the webhook, restarts what it may, and fails because of the rest, which is served", async () => {
  const { code, stdout, stderr } = await runHook("--timeout", "20");
  assert.equal(code, 1, stdout);
  assert.match(stdout, /^the webhook configuration switchback-webhook is gone.*\nshop\/Deployment\/web: restarted\n/);
  assert.match(stdout, /\n {2}other\/Pod\/bare: nothing recreates it: delete it\n/);
  assert.match(stderr, /^switchback: 1 pod holds addresses of Switchback: nothing more is removed/);
  assert.deepEqual(await holders(), ["other"]);
  const left = await remaining();
  assert.ok(!left.includes(WEBHOOK));
  assert.ok(left.includes("service/switchback-ingress-nginx"));
});

it("the page's command brings the webhook back, for a user who wants to stay", async () => {
  const [stay = []] = commands(PAGE, "helm").filter(([word]) => word === "rollback");
  const { code, stderr } = await helm(...stay.map((arg) => (arg === "REVISION" ? "1" : arg)));
  assert.equal(code, 0, stderr);
  assert.ok((await remaining()).includes(WEBHOOK));
});

it("once no pod holds an address, the hook stops the controller and deletes what was created at run time", async () => {
  const created = [
    WEBHOOK,
    "service/switchback-ingress-nginx",
    ...[OBJECTS.map, OBJECTS.targets].map((name) => `configmap/${name}`),
    ...[OBJECTS.ca, OBJECTS.serving, OBJECTS.statusKey].map((name) => `secret/${name}`),
    `lease.coordination.k8s.io/${OBJECTS.lease}`,
  ];
  const left = async () => new Set(created).intersection(new Set(await remaining()));
  assert.equal((await left()).size, created.length);
  await system.kubectl("-n", "other", "delete", "pod", "bare", "--now");
  // The hook stops the controller's pods. The controller of this test is not in a pod.
  await system.end(await system.leader());
  const { code, stdout, stderr } = await runHook();
  assert.equal(code, 0, stderr);
  assert.match(stdout, /no pod holds an address of Switchback\nswitchback-controller has no replicas now\ndeleted /);
  assert.deepEqual(await left(), new Set());
});

it("the commands of the notes, which are those of the page, do the hook's work and leave nothing", async () => {
  const notes = (await helm("get", "notes", "switchback", "-n", NAMESPACE)).stdout;
  const ofNotes = commands(notes, "switchback").filter(([word, flag]) => word === "uninstall" && flag !== "--check");
  const [release = [], ...others] = ofNotes;
  const [remove = []] = commands(notes, "helm");
  assert.deepEqual([others, remove.at(-1)], [[], "--no-hooks"]);
  assert.ok(commands(PAGE, "switchback").some((args) => args.join() === release.join()));
  const released = await system.cli([...release, "--yes"]);
  assert.equal(released.code, 0, released.stderr);
  const removed = await helm(...remove);
  assert.equal(removed.code, 0, removed.stderr);
  const jobs = commands(PAGE, "kubectl").filter((args) => args.includes("job"));
  assert.equal(jobs.length, 1);
  for (const args of jobs) await system.kubectl(...args);
  await until("nothing to be left", async () => (await remaining()).length === 0);
});

it("the hook's rights were enough, and every one of them was used", async () => {
  const entries = (await system.audit.entries()).filter(({ user }) => user.username.endsWith(`:${HOOK}`));
  const forbidden = entries.filter(({ responseStatus }) => responseStatus?.code === 403);
  assert.deepEqual(
    forbidden.map(({ verb, requestURI }) => `${verb} ${requestURI}`),
    [],
  );
  const used = entries.map(({ verb, objectRef }) => {
    const { resource = "", subresource } = objectRef ?? {};
    return `${verb} ${subresource === undefined ? resource : `${resource}/${subresource}`}`;
  });
  assert.deepEqual([...granted.difference(new Set(used))], []);
});
