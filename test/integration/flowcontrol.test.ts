import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { stringify } from "yaml";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { OBJECTS } from "../published.ts";
import { NAMESPACE, named, type Rendered, render } from "./rendered.ts";
import { until } from "./system.ts";

// The chart's flow control on a real API server. The headers of the answers show the priority level of each account's
// requests.

const AGENTS = "switchback-agent";
const GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1";
const objects = render({ flowControl: { enabled: true }, agent: { enabled: true } });
const ours = objects.filter(({ apiVersion }) => apiVersion === "flowcontrol.apiserver.k8s.io/v1");

let cluster: ControlPlane;
before(async () => {
  cluster = await startControlPlane();
  const accounts = [
    ...["controller", "webhook", "proxy", "other"].map((name) => account(NAMESPACE, `switchback-${name}`)),
    account(AGENTS, "switchback-agent"),
  ];
  const namespaces = [NAMESPACE, AGENTS].map((name) => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }));
  const input = [...namespaces, ...accounts, ...ours].map((object) => stringify(object)).join("---\n");
  const { code, stderr } = await cluster.tool("kubectl", ["apply", "-f", "-"], { input });
  assert.equal(code, 0, stderr);
});
after(() => cluster.stop());

function account(namespace: string, name: string) {
  return { apiVersion: "v1", kind: "ServiceAccount", metadata: { namespace, name } };
}

/** The names of the FlowSchema and the priority level that a request of an account got. */
async function flowOf(name: string, path: string): Promise<(string | undefined)[]> {
  const { headers } = await cluster.call({ path, token: await cluster.tokenFor(name) });
  const uids = ["flowschema", "prioritylevel"].map((kind) => headers[`x-kubernetes-pf-${kind}-uid`]);
  const resources = ["flowschemas", "prioritylevelconfigurations"];
  return await Promise.all(
    resources.map(async (resource, at) => {
      const { items } = (await cluster.call({ path: `${GROUP}/${resource}` })).body as Rendered;
      return items.find(({ metadata }: Rendered) => metadata.uid === uids[at])?.metadata.name;
    }),
  );
}

const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${OBJECTS.lease}`;
const MAP = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
const AGENT = `${AGENTS}/switchback-agent`;

describe("flow control", () => {
  it("is off by default, and without agents has no level for them", () => {
    const names = (values: object) =>
      render(values).flatMap(({ kind, metadata }) =>
        /^(FlowSchema|PriorityLevel)/.test(kind) ? [`${kind}/${metadata.name}`] : [],
      );
    assert.deepEqual(names({}), []);
    assert.deepEqual(names({ flowControl: { enabled: true } }).toSorted(), [
      "FlowSchema/switchback",
      "FlowSchema/switchback-leases",
      "PriorityLevelConfiguration/switchback",
    ]);
    const { spec } = named(
      render({ flowControl: { enabled: true, shares: { agents: 3 } }, agent: { enabled: true } }),
      "PriorityLevelConfiguration",
      "switchback-agents",
    );
    assert.equal(spec.limited.nominalConcurrencyShares, 3);
  });

  it("gives each account its level and Leases their own flow, and gives our levels to nobody else", async () => {
    await until("the API server uses the schemas", async () => (await flowOf(AGENT, MAP))[0] === "switchback-agents");
    for (const [name, path, schema, level] of [
      [`${NAMESPACE}/switchback-controller`, LEASE, "switchback-leases", "switchback"],
      [`${NAMESPACE}/switchback-controller`, "/api/v1/pods?limit=1", "switchback", "switchback"],
      [`${NAMESPACE}/switchback-controller`, "/version", "switchback", "switchback"],
      [`${NAMESPACE}/switchback-webhook`, MAP, "switchback", "switchback"],
      [`${NAMESPACE}/switchback-proxy`, MAP, "switchback", "switchback"],
      [AGENT, MAP, "switchback-agents", "switchback-agents"],
      [AGENT, `/apis/coordination.k8s.io/v1/namespaces/${AGENTS}/leases/a`, "switchback-agents", "switchback-agents"],
      [`${NAMESPACE}/switchback-other`, MAP, "service-accounts", "workload-low"],
    ] as const)
      assert.deepEqual(await flowOf(name, path), [schema, level], `${name} ${path}`);
  });

  it("reserves seats for our components, and limits the agents to a few", async () => {
    const { body } = await cluster.call({ path: "/metrics" });
    const seats = (kind: string, level: string) => {
      const line = new RegExp(`^apiserver_flowcontrol_${kind}_limit_seats\\{priority_level="${level}"\\} (\\d+)$`, "m");
      return Number(line.exec(body as string)?.[1]);
    };
    const total = 600;
    // The shares of the API server's own levels, as of Kubernetes 1.37, and ours.
    const shares = 245 + 10 + 5;
    const components = Math.ceil((total * 10) / shares);
    const agents = Math.ceil((total * 5) / shares);
    assert.deepEqual([seats("nominal", "switchback"), seats("lower", "switchback")], [components, components]);
    assert.deepEqual([seats("nominal", "switchback-agents"), seats("upper", "switchback-agents")], [agents, agents]);
  });
});
