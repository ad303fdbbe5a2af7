import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type ControlPlane, startControlPlane } from "#test/cluster/controlplane.ts";
import { assertDenied, assertPasses, callsWith, isDenied } from "#test/integration/policy-calls.ts";
import { until } from "#test/integration/system.ts";
import { agentLeaseName } from "../agent-lease-format.ts";

// What a stolen token of an agent can do with Leases. agent.test.ts shows, under the same policy, what agents do.

const CHART = fileURLToPath(new URL("../../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";
const AGENTS = "switchback-agent";
const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${AGENTS}/leases`;
const LONG_NODE = `${"n".repeat(60)}.${"o".repeat(60)}.${"d".repeat(60)}.${"e".repeat(60)}-1`;
const OTHER_LONG_NODE = LONG_NODE.replaceAll("n", "m");

for (const profile of ["default", "small"] as const) {
  describe(`an agent's token on Leases, in the profile ${profile}`, () => tokensCanDoNoMore(profile));
}

function tokensCanDoNoMore(profile: "default" | "small"): void {
  let cluster: ControlPlane;
  /** Tokens of an agent on `node-1` and of one on a node with a long name, and a token without a pod. */
  const tokens = { agent: "", longAgent: "", podless: "" };
  const { send, apply, admin } = callsWith(() => cluster, tokens);

  before(async () => {
    cluster = await startControlPlane();
    await admin("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
    const args = ["install", "switchback", CHART, "-n", NAMESPACE, "--values", "-"];
    const input = JSON.stringify({ profile, agent: { enabled: true } });
    const { code, stderr } = await cluster.tool("helm", args, { input });
    assert.equal(code, 0, stderr);
    tokens.podless = await cluster.tokenFor(`${AGENTS}/switchback-agent`);
    tokens.agent = await cluster.tokenFor(`${AGENTS}/switchback-agent`, "node-1");
    tokens.longAgent = await cluster.tokenFor(`${AGENTS}/switchback-agent`, LONG_NODE);
    await until("the policy to be in force", async () =>
      isDenied(await apply("agent", `${LEASES}/${agentLeaseName("node-2")}`, lease("node-2"))),
    );
  });
  after(() => cluster?.stop());

  function lease(node: string) {
    const metadata = { name: agentLeaseName(node), namespace: AGENTS };
    return { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec: { holderIdentity: "agent" } };
  }

  const path = (node: string) => `${LEASES}/${agentLeaseName(node)}`;

  for (const [holder, node] of [
    ["agent", "node-1"],
    ["longAgent", LONG_NODE],
  ] as const) {
    it(`writes and deletes the Lease of its node (${node.length} characters)`, async () => {
      assertPasses(await apply(holder, path(node), lease(node)));
      await admin("POST", LEASES, lease(node));
      assertPasses(await apply(holder, path(node), lease(node)));
      assertPasses(await send(holder, "DELETE", path(node)));
    });
  }

  it("neither writes nor deletes the Lease of another node", async () => {
    await admin("POST", LEASES, lease("node-2"));
    const nodes = ["node-2", "node-3", "node-11", "node", LONG_NODE, OTHER_LONG_NODE];
    for (const node of nodes) assertDenied(await apply("agent", path(node), lease(node)));
    assertDenied(await send("agent", "DELETE", path("node-2")));
    assertDenied(await apply("longAgent", path("node-1"), lease("node-1")));
    assertDenied(await apply("longAgent", path(OTHER_LONG_NODE), lease(OTHER_LONG_NODE)));
    const whole = { ...lease(LONG_NODE), metadata: { name: `switchback-agent-${LONG_NODE}`.slice(0, 253) } };
    assertDenied(await apply("longAgent", `${LEASES}/${whole.metadata.name}`, whole));
    const short = { ...lease(LONG_NODE), metadata: { name: "switchback-agent-nnn-0123456789ab" } };
    assertDenied(await apply("longAgent", `${LEASES}/${short.metadata.name}`, short));
    const unnamed = { ...lease("node-2"), metadata: { generateName: "switchback-agent-node-2" } };
    assertDenied(await send("agent", "POST", LEASES, unnamed));
  });

  it("can do nothing without a pod", async () => {
    assertDenied(await apply("podless", path("node-1"), lease("node-1")));
    assertDenied(await send("podless", "DELETE", path("node-2")));
  });
}
