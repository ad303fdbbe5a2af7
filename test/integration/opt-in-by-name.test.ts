import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { Following } from "./following.ts";
import { Kubelet } from "./kubelet.ts";
import { ingress, namespaceYaml, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until, webhookMetric } from "./system.ts";

// One command: `helm install ... --set 'config.optIn.namespaces={cert-manager}'` in a cluster whose cert-manager runs.
// Nobody sets a label, and nothing else is configured.

const CLOSED = "closed";
const NAME = "first.example.com";
const INJECT = "switchback.dev/inject";
const values = {
  config: {
    optIn: { namespaces: ["cert-manager", CLOSED] },
    restart: { minIntervalSeconds: 1 },
  },
};

let system: System;
let kubelet: Kubelet;
const certManager = () => new Following(system, "cert-manager");
const closed = () => new Following(system, CLOSED);

before(async () => {
  const parts = { spec: { strategy: { type: "Recreate" } } };
  const deployments = ["cert-manager", CLOSED].map((name) => workload("Deployment", name, name, parts));
  const namespaces = `${namespaceYaml("cert-manager")}${namespaceYaml(CLOSED, "disabled")}`;
  system = await startSystem({ values, before: namespaces + deployments.join("") });
  kubelet = new Kubelet(system, "cert-manager", CLOSED);
  await closed().rolledOut("Deployment", CLOSED);
  await certManager().rolledOut("Deployment", "cert-manager");
  assert.equal(await certManager().haveName("cert-manager", NAME), false);
  await system.showWebhooks();
  await system.apply(ingress("first", [NAME]));
  await system.ready([NAME]);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

it("a pod that ran before the install gets the names by one restart", async () => {
  await certManager().codeIs("cert-manager", "in-step");
  await until("the names", () => certManager().haveName("cert-manager", NAME));
  assert.equal(await certManager().changes("cert-manager"), 1);
  const { metadata } = await system.json<{ metadata: { labels: object } }>("get", "namespace", "cert-manager");
  assert.ok(!(INJECT in metadata.labels));
});

it("a namespace or pod with the label `disabled` is left alone", async () => {
  assert.equal(await closed().haveName(CLOSED, NAME), false);
  assert.equal(await closed().statusOf(CLOSED), undefined);
  await system.kubectl(
    "-n",
    "cert-manager",
    "run",
    "out",
    "--image=example.com/c:1",
    "-l",
    `app=out,${INJECT}=disabled`,
  );
  assert.equal(await certManager().haveName("out", NAME), false);
  await system.kubectl("-n", "cert-manager", "delete", "pod", "out", "--now");
});

it("a namespace follows at once when its label is removed; with the label `enabled` it causes one call", async () => {
  await system.kubectl("label", "namespace", CLOSED, `${INJECT}-`);
  await until("the names", () => closed().haveName(CLOSED, NAME));
  await closed().codeIs(CLOSED, "in-step");
  await system.kubectl("label", "namespace", CLOSED, `${INJECT}=enabled`);
  const before = await calls();
  const [old] = await closed().pods(CLOSED);
  await system.kubectl("-n", CLOSED, "delete", "pods", "--all", "--now");
  await until("a new pod with the names", async () => {
    const pods = await closed().pods(CLOSED);
    return pods[0]?.metadata.uid !== old?.metadata.uid && (await closed().haveName(CLOSED, NAME));
  });
  assert.equal(await calls(), before + 1);
});

const calls = () => webhookMetric(system, "switchback_webhook_admissions_total");

it("the doctor lists namespaces that opted in by name and by label", async () => {
  const { stdout } = await system.cli(["doctor", "-o", "json"]);
  assert.match(stdout, /opted in: (cert-manager, closed|closed, cert-manager)/);
});

it("an uninstall restarts what opted in by name, and leaves no address and no Role", async () => {
  const { code, stdout, stderr } = await system.cli(["uninstall", "--yes", "--namespace", NAMESPACE]);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /\ncert-manager\/Deployment\/cert-manager: restarted\n/);
  for (const follow of [certManager(), closed()]) assert.equal(await follow.haveName(follow.namespace, NAME), false);
  const helm = await system.cluster.tool("helm", ["uninstall", "switchback", "-n", NAMESPACE, "--no-hooks"], {});
  assert.equal(helm.code, 0, helm.stderr);
  const left = await system.kubectl("get", "roles,rolebindings,mutatingwebhookconfigurations", "-A", "-o", "name");
  assert.doesNotMatch(left, /switchback/);
});
