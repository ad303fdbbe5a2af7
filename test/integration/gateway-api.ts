import assert from "node:assert/strict";
import { GATEWAY_GROUP } from "../../sources/gateway/view.ts";
import { gatewayApiDefinitions } from "../cluster/addons/gateway-api.ts";
import type { System } from "./system.ts";

export const PLURALS = {
  Gateway: "gateways",
  HTTPRoute: "httproutes",
  GRPCRoute: "grpcroutes",
  TLSRoute: "tlsroutes",
} as const;

/** The names of the definitions that Switchback reads. */
export const CRDS = Object.values(PLURALS).map((plural) => `${plural}.${GATEWAY_GROUP}`);

/** Installs them, TLSRoute from the experimental channel, and waits until objects can be made. */
export async function installGatewayApi(system: System): Promise<void> {
  const definitions = [
    await gatewayApiDefinitions("standard", ["gateways", "httproutes", "grpcroutes"]),
    await gatewayApiDefinitions("experimental", ["tlsroutes"]),
  ];
  const args = ["apply", "--server-side", "-f", "-"];
  const { code, stderr } = await system.cluster.tool("kubectl", args, { input: definitions.join("---\n") });
  assert.equal(code, 0, stderr);
  await system.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", ...CRDS);
}
