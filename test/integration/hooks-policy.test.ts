import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { OBJECTS } from "../published.ts";
import { assertDenied, assertPasses, callsWith, isDenied } from "./policy-calls.ts";
import type { Rendered } from "./rendered.ts";
import { until } from "./system.ts";

// What the accounts of hooks can do while they exist, on a real API server: no more than their hook does. No publisher
// is enabled, as after an upgrade that has turned it off.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";
const AGENTS = "switchback-agent";
const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments";
const DAEMON_SET = `/apis/apps/v1/namespaces/${AGENTS}/daemonsets/switchback-agent`;
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
const OWN_MAPS = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
const DNS_MAPS = "/api/v1/namespaces/kube-system/configmaps";
const VALUES = {
  agent: { enabled: true },
  config: { restart: { namespaces: ["shop"] }, publishers: { externalDns: { kind: "Service" } } },
  publishers: { remove: ["coredns", "coredns-import", "external-dns"] },
};
/** Kinds of the hooks' objects, which Helm creates only while it runs a hook. */
const HOOK_KINDS = [
  "ServiceAccount",
  "Role",
  "RoleBinding",
  "ClusterRole",
  "ClusterRoleBinding",
  "ValidatingAdmissionPolicy",
  "ValidatingAdmissionPolicyBinding",
];
const REST = ".:53 {\n    ready\n}\n";
const block = (publisher: string, body = "") =>
  `# BEGIN switchback ${publisher}: 1 names. Do not edit.\n${body}# END switchback ${publisher}\n`;

let cluster: ControlPlane;
const tokens = {
  uninstall: "",
  "publisher-coredns-remove": "",
  "publisher-external-dns-remove": "",
};
const { send, merge, admin } = callsWith(() => cluster, tokens);

before(async () => {
  cluster = await startControlPlane();
  for (const name of ["shop", NAMESPACE]) await admin("POST", "/api/v1/namespaces", { metadata: { name } });
  await run("helm", ["install", "switchback", CHART, "-n", NAMESPACE, "--values", "-"], JSON.stringify(VALUES));
  const args = ["template", "switchback", CHART, "-n", NAMESPACE, "--values", "-"];
  const rendered = parseAllDocuments(await run("helm", args, JSON.stringify(VALUES))).map(
    (one) => one.toJS() as Rendered,
  );
  const ofHooks = rendered.filter(
    (one) => one?.metadata.annotations?.["helm.sh/hook"] && HOOK_KINDS.includes(one.kind),
  );
  await run(
    "kubectl",
    ["apply", "--server-side", "-f", "-"],
    ofHooks.map((one) => JSON.stringify(one)).join("\n---\n"),
  );
  for (const hook of Object.keys(tokens) as Array<keyof typeof tokens>)
    tokens[hook] = await cluster.tokenFor(`${NAMESPACE}/switchback-${hook}`);
  await admin("POST", DEPLOYMENTS, deployment());
  for (const name of ["default", "admin"])
    await cluster.call({
      method: "POST",
      path: "/api/v1/namespaces/shop/serviceaccounts",
      body: { metadata: { name } },
    });
  for (const [name, data] of [
    ["coredns", { Corefile: `${block("coredns")}${REST}`, other: "x" }],
    ["coredns-custom", { "switchback.server": block("coredns-import"), "their.server": "x" }],
  ] as const)
    await admin("POST", DNS_MAPS, { metadata: { name }, data });
  for (const name of ["coredns", "coredns-import", "external-dns"]) await admin("POST", OWN_MAPS, document(name));
  await admin("POST", SERVICES, service("switchback-web", { "switchback.dev/target": "web" }));
  await admin("POST", SERVICES, service("theirs", {}));
  await admin("POST", SERVICES, service("switchback-names-1", { "switchback.dev/publisher": "external-dns" }));
  await admin("POST", SERVICES, service("switchback-names-2", {}));
  await until("the policies to be in force", async () => {
    const tries = [
      await merge("uninstall", `${DEPLOYMENTS}/web`, { spec: { paused: true } }),
      await merge("uninstall", `${DNS_MAPS}/coredns`, { data: { other: "y" } }),
      await merge("publisher-coredns-remove", `${DNS_MAPS}/coredns`, { data: { other: "y" } }),
      await send("uninstall", "DELETE", `${SERVICES}/theirs`),
    ];
    return tries.every(isDenied);
  });
});
after(() => cluster?.stop());

async function run(tool: "helm" | "kubectl", args: string[], input: string): Promise<string> {
  const { code, stdout, stderr } = await cluster.tool(tool, args, { input });
  assert.equal(code, 0, stderr);
  return stdout;
}

function deployment() {
  const labels = { app: "web" };
  const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "web" }] } };
  return { metadata: { name: "web" }, spec: { selector: { matchLabels: labels }, template } };
}

function document(publisher: string) {
  const metadata = { name: `switchback-publisher-${publisher}`, labels: { "switchback.dev/publisher": publisher } };
  return { metadata, data: { [OBJECTS.publisherState]: "{}" } };
}

function service(name: string, labels: object) {
  return { metadata: { name, labels }, spec: { ports: [{ port: 443 }] } };
}

describe("the uninstall's account", () => {
  it("deletes the webhook configuration", async () => {
    assertPasses(await send("uninstall", "DELETE", CONFIGURATION));
  });

  it("deletes front Services and no others", async () => {
    assertPasses(await send("uninstall", "DELETE", `${SERVICES}/switchback-web`));
    for (const name of ["theirs", "switchback-webhook"])
      assertDenied(await send("uninstall", "DELETE", `${SERVICES}/${name}`));
  });

  it("restarts workloads, and cannot change anything else in them", async () => {
    const template = (changes: object) => ({ spec: { template: changes } });
    const annotations = { "switchback.dev/restartedAt": "now" };
    assertPasses(await merge("uninstall", `${DEPLOYMENTS}/web`, template({ metadata: { annotations } })));
    const containers = [{ name: "web", image: "evil" }];
    assertDenied(await merge("uninstall", `${DEPLOYMENTS}/web`, template({ spec: { containers } })));
  });

  it("asks the agents to leave, and cannot change anything else in them", async () => {
    const annotations = { "switchback.dev/leaving": "true" };
    assertPasses(await merge("uninstall", DAEMON_SET, { metadata: { annotations } }));
    for (const change of [
      { spec: { template: { spec: { hostPID: true } } } },
      { spec: { template: { metadata: { annotations } } } },
      { metadata: { annotations: { other: "true" } } },
      { metadata: { finalizers: ["example.com/never"] } },
    ])
      assertDenied(await merge("uninstall", DAEMON_SET, change));
  });
});

for (const hook of ["uninstall", "publisher-coredns-remove"] as const) {
  describe(`the account ${hook}`, () => {
    const path = `${DNS_MAPS}/coredns`;

    it("removes our part of the Corefile, and cannot change anything else in it", async () => {
      assertPasses(await merge(hook, path, { data: { Corefile: REST } }));
      assertPasses(await merge(hook, path, { metadata: { managedFields: [{}] } }));
      for (const change of [
        { data: { Corefile: `${REST}# more\n` } },
        { data: { Corefile: `${block("coredns", "evil.example.com {\n}\n")}${REST}` } },
        { data: { Corefile: null } },
        { data: { other: "y" } },
        { metadata: { labels: { a: "b" } } },
        { metadata: { finalizers: ["example.com/never"] } },
      ])
        assertDenied(await merge(hook, path, change));
    });

    it("cannot create or delete a ConfigMap of the cluster's DNS", async () => {
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "evil" } };
      assert.equal((await send(hook, "POST", DNS_MAPS, body)).status, 403);
      assert.equal((await send(hook, "DELETE", path)).status, 403);
    });

    it("marks the publisher's document, and cannot add anything else to it", async () => {
      const own = `${OWN_MAPS}/switchback-publisher-coredns`;
      const replaced = document("coredns");
      const data = { [OBJECTS.publisherState]: '{"leaving":1}' };
      assertPasses(await send(hook, "PUT", own, { ...replaced, data }));
      assertPasses(await send(hook, "DELETE", own));
      const { metadata } = replaced;
      for (const change of [
        { ...replaced, metadata: { ...metadata, finalizers: ["example.com/never"] } },
        { ...replaced, metadata: { ...metadata, labels: { ...metadata.labels, "example.com/x": "y" } } },
        { ...replaced, data: { ...data, other: "x" } },
        { ...replaced, immutable: true },
      ])
        assertDenied(await send(hook, "PUT", own, change));
    });
  });
}

describe("the uninstall's account on the file that CoreDNS imports", () => {
  const path = `${DNS_MAPS}/coredns-custom`;

  it("removes our key, and cannot change anything else", async () => {
    assertPasses(await merge("uninstall", path, { data: { "switchback.server": null } }));
    assertDenied(
      await merge("uninstall", path, { data: { "switchback.server": block("coredns-import", "x {\n}\n") } }),
    );
    assertDenied(await merge("uninstall", path, { data: { "their.server": null } }));
    assertDenied(await send("uninstall", "DELETE", path));
  });
});

for (const hook of ["uninstall", "publisher-external-dns-remove"] as const) {
  describe(`the account ${hook} on objects for external-dns`, () => {
    it("deletes those of the publisher, and cannot write any", async () => {
      assertPasses(await send(hook, "DELETE", `${SERVICES}/switchback-names-1`));
      assertDenied(await send(hook, "DELETE", `${SERVICES}/switchback-names-2`));
      const body = service("switchback-names-1", { "switchback.dev/publisher": "external-dns" });
      assert.equal((await merge(hook, `${SERVICES}/switchback-names-1`, body)).status, 403);
      assert.equal((await send(hook, "POST", SERVICES, body)).status, 403);
    });
  });
}
