import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { after, before, describe, it } from "node:test";
import type { ReportDocument } from "#doctor/report.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { runSwitchback, SWITCHBACK } from "../cluster/tools.ts";
import { ingress, namespaceYaml } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// `switchback doctor` against a real API server: what it reads, what it may not read, and what it leaves behind.

interface Examination extends ReportDocument {
  readonly code: number;
  readonly stderr: string;
}

async function examine(kubeconfig: string, ...flags: string[]): Promise<Examination> {
  const args = ["doctor", "-o", "json", ...flags];
  const { code, stdout, stderr } = await runSwitchback(args, { KUBECONFIG: kubeconfig });
  assert.ok(stdout.startsWith("{"), stderr);
  return { code, stderr, ...(JSON.parse(stdout) as ReportDocument) };
}

/** `status code` of each finding, once. */
function found({ findings }: ReportDocument): string[] {
  return [...new Set(findings.map(({ status, code }) => `${status} ${code}`))].sort();
}

const balancer = (name: string, port: number): string =>
  `apiVersion: v1\nkind: Service\nmetadata: { name: ${name} }\nspec: { type: LoadBalancer, ports: [{ port: ${port} ` +
  "}] }\n---\n";

async function publish(cluster: ControlPlane, service: string, entry: object): Promise<void> {
  const status = JSON.stringify({ status: { loadBalancer: { ingress: [entry] } } });
  const { code, stderr } = await cluster.kubectl(
    ...["patch", "service", service, "--subresource=status", "--type=merge", "-p", status],
  );
  assert.equal(code, 0, stderr);
}

describe("a cluster without Switchback, and without Gateway API", () => {
  let cluster: ControlPlane;
  before(async () => {
    cluster = await startControlPlane({ controllerManager: false });
    const input =
      balancer("taken", 80) + balancer("left-alone", 443) + balancer("named", 80) + balancer("database", 5432);
    const { code, stderr } = await cluster.tool("kubectl", ["apply", "-f", "-"], { input });
    assert.equal(code, 0, stderr);
    await publish(cluster, "taken", { ip: "192.0.2.1" });
    await publish(cluster, "left-alone", { ip: "192.0.2.2", ipMode: "Proxy" });
    await publish(cluster, "named", { hostname: "lb.example.com" });
  });
  after(() => cluster?.stop());

  it("reports whether the problem exists, has no failure, and exits with 0", async () => {
    const examination = await examine(cluster.adminKubeconfig);
    const expected = ["ok not-installed", "ok not-short-circuited", "unknown need-unseen"];
    assert.deepEqual(found(examination), expected);
    assert.equal(examination.code, 0);
    assert.match(examination.stderr, /^diagnosing https:\/\/127\.0\.0\.1:\d+\/\n$/);
  });

  it("reports each missing permission, and nothing as ok or absent, for a user without permissions", async () => {
    const nobody = await cluster.kubeconfigFor({ clientCert: cluster.ca.client("nobody", []) });
    const examination = await examine(nobody);
    assert.ok(
      examination.findings.every(({ status }) => status === "unknown"),
      found(examination).join(),
    );
    const missing = examination.findings.map(({ evidence }) => evidence).join("\n");
    for (const permission of [
      "list services in all namespaces",
      "list namespaces in all namespaces",
      "list deployments.apps in the namespace switchback-system",
      "get mutatingwebhookconfigurations.admissionregistration.k8s.io switchback-webhook in all namespaces",
      "create pods in the namespace default",
      "list nodes in all namespaces",
    ]) {
      assert.ok(missing.includes(`missing permission: ${permission}`), missing);
    }
  });

  it("a user with rights for one namespace gets an answer, and each kind that is not listed is said", async () => {
    const someone = await cluster.kubeconfigFor({ clientCert: cluster.ca.client("someone", []) });
    const binding = ["create", "rolebinding", "someone", "--clusterrole=admin", "--user=someone"];
    assert.equal((await cluster.kubectl("-n", "default", ...binding)).code, 0);
    const examination = await examine(someone);
    assert.deepEqual(
      examination.findings.filter(({ status }) => status === "broken"),
      [],
    );
    assert.equal(examination.headline, "It is not known whether pods reach the cluster's names");
    assert.ok(examination.findings.some(({ subject, code }) => subject === "public names" && code === "forbidden"));
  });

  it("an API server that is down is a failure, not a report", async () => {
    await cluster.stopApiServer();
    const { code, stdout, stderr } = await runSwitchback(["doctor"], {
      KUBECONFIG: cluster.adminKubeconfig,
    });
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /switchback: GET \/version: .*ECONNREFUSED/);
  });
});

describe("a cluster with Switchback", () => {
  let system: System;
  before(async () => {
    const target = { name: "web", upstream: { service: { namespace: "default", name: "web" } } };
    system = await startSystem({ values: { config: { targets: [target] } } });
    await system.apply(balancer("web", 80) + namespaceYaml("shop", "enabled") + ingress("a", ["a.example.com"]));
    await publish(system.cluster, "web", { ip: "192.0.2.1" });
  });
  after(() => system?.stop());
  const admin = (...flags: string[]) => examine(system.cluster.adminKubeconfig, ...flags);

  it("the dry run of a pod is injected, and leaves no pod", async () => {
    const examination = await admin();
    assert.ok(found(examination).includes("ok webhook-answers"), found(examination).join());
    assert.ok(found(examination).includes("ok opted-in"));
    assert.equal(examination.code, 1, "no pod of ours is ready here");
    assert.equal((await system.kubectl("get", "pods", "-o", "name")).trim(), "");
  });

  it("reports a webhook that does not answer, whether it fails open or closed", async () => {
    const [replica] = system.webhooks;
    assert.ok(replica);
    await system.end(replica);
    assert.ok(found(await admin()).includes("broken webhook-silent"));
    const policy = (value: string) => {
      const operations = [0, 1].map((index) => ({ op: "replace", path: `/webhooks/${index}/failurePolicy`, value }));
      return system.kubectl(
        "patch",
        "mutatingwebhookconfiguration",
        "switchback-webhook",
        "--type=json",
        "-p",
        JSON.stringify(operations),
      );
    };
    await policy("Fail");
    await until("the API server fails closed", async () => found(await admin()).includes("broken webhook-blocks"));
    assert.ok(found(await admin()).includes("broken webhook-fails-closed"));
    await policy("Ignore");
    await system.start("webhook");
    await system.ready();
    await until("the webhook answers", async () => found(await admin()).includes("ok webhook-answers"));
  });

  it("if the namespace refuses the pod, the result is unknown", async () => {
    await system.apply(namespaceYaml("full"));
    await system.kubectl("-n", "full", "create", "quota", "none", "--hard=pods=0");
    await until("the quota counts", async () =>
      found(await admin("--probe-namespace", "full")).includes("unknown dry-run-refused"),
    );
    const absent = await admin("--probe-namespace", "absent");
    assert.ok(found(absent).includes("unknown dry-run-refused"));
  });

  it("dry run and probe pod pass the restricted Pod Security Standard; Ctrl-C removes the pod", async () => {
    await system.apply(namespaceYaml("strict"));
    await system.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted");
    const args = [SWITCHBACK, "doctor", "--probe", "--probe-namespace", "strict"];
    const child = spawn(process.execPath, args, { env: { KUBECONFIG: system.cluster.adminKubeconfig } });
    const [stdout, stderr] = [text(child.stdout), text(child.stderr)];
    const pods = async () => (await system.kubectl("-n", "strict", "get", "pods", "-o", "name")).trim();
    await until("the probe pod", async () => (await pods()) !== "");
    child.kill("SIGINT");
    const [code] = await once(child, "exit");
    assert.equal(code, 1);
    assert.equal(await stdout, "");
    assert.match(await stderr, /probe: pod removed\nswitchback: SIGINT: the probe was stopped\n$/);
    assert.equal(await pods(), "");
    assert.ok(found(await admin("--probe-namespace", "strict")).includes("ok webhook-answers"));
  });

  it("for another namespace, it reports where Switchback is installed", async () => {
    const examination = await admin("--namespace", "default");
    assert.ok(!found(examination).some((word) => word.startsWith("broken")), found(examination).join());
    const elsewhere = examination.findings.find(({ code }) => code === "installed-elsewhere");
    assert.deepEqual(elsewhere?.cures, [`switchback doctor --namespace ${NAMESPACE}`]);
  });
});
