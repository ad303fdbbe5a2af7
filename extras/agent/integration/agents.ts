import { parse } from "yaml";
import { configSections } from "#cli/extras.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { kubeMapReader } from "#lib/documents/map-reader.ts";
import { connect } from "#lib/kube/connect.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { NODE } from "#test/cluster/kubelet.ts";
import { AGENTS, type System } from "#test/integration/system.ts";
import { agentLeaseName } from "../agent-lease-format.ts";
import { agentSettings } from "../config.ts";
import { type RunningAgent, runAgent } from "../run.ts";

/** An agent in this process. */
export interface TestAgent {
  readonly state: RunningAgent["state"];
  stop(): Promise<void>;
}

/**
 * Starts the agent of the only node, with the rights and the configuration from the chart. `kubeletRoot` is a
 * directory that belongs to the test.
 */
export async function startAgent(system: System, kubeletRoot: string): Promise<TestAgent> {
  const token = await system.cluster.tokenFor(`${AGENTS}/switchback-agent`, NODE);
  const client = await connect({ kubeconfig: await system.cluster.kubeconfigFor({ token }) });
  const config = parseConfig(parse(await system.configuration("agent")), await configSections());
  const maps = kubeMapReader({ client, namespace: config.namespace, log: silentLogger });
  const own = { node: NODE, kubeletRoot, healthPort: 0, address: "127.0.0.1" };
  const whole = { ...config, agent: { ...agentSettings(config), ...own } };
  const agent = await runAgent(whole, { client, maps, log: silentLogger, identity: "agent-1", now: Date.now });
  return {
    get state() {
      return agent.state;
    },
    async stop() {
      await agent.stop();
      client.close();
    },
  };
}

/** The agent's Lease. */
export interface AgentLease {
  readonly metadata: {
    readonly annotations?: Readonly<Record<string, string>>;
    readonly ownerReferences?: ReadonlyArray<{ readonly kind: string }>;
  };
  readonly spec: { readonly renewTime: string; readonly holderIdentity: string };
}

export async function agentLease(system: System): Promise<AgentLease> {
  return await system.json<AgentLease>("-n", AGENTS, "get", "lease", agentLeaseName(NODE));
}
