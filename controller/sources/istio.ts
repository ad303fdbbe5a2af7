import type { Config } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { graphSource } from "./graph-source.ts";
import { type IstioObject, istioClaims } from "./istio/claims.ts";
import { type GatewayView, type VirtualServiceView, viewGateway, viewVirtualService } from "./istio/view.ts";
import type { OptionalKind } from "./optional-kinds.ts";
import type { Source } from "./types.ts";

const KIND = { group: "networking.istio.io", versions: ["v1", "v1beta1", "v1alpha3"] };
/** The presets that this source reads. */
export const ISTIO_KINDS = {
  "istio-gateway": { ...KIND, resource: "gateways" },
  "istio-virtualservice": { ...KIND, resource: "virtualservices" },
} as const;
export type IstioPreset = keyof typeof ISTIO_KINDS;

export function isIstio(preset: PresetName): preset is IstioPreset {
  return Object.hasOwn(ISTIO_KINDS, preset);
}

const GATEWAYS: OptionalKind<GatewayView> = {
  ...ISTIO_KINDS["istio-gateway"],
  prefix: "Gateway ",
  named: true,
  project: viewGateway,
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(({ name }) => keeps(name)) }),
};
const VIRTUAL_SERVICES: OptionalKind<VirtualServiceView> = {
  ...ISTIO_KINDS["istio-virtualservice"],
  prefix: "VirtualService ",
  named: true,
  project: viewVirtualService,
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(keeps) }),
};

/**
 * Istio's Gateways and VirtualServices; undefined: no preset names them. Gateways are read for VirtualServices too,
 * because they have the hosts and the selector of the Service.
 */
export function istioSource(deps: {
  readonly client: KubeClient;
  readonly config: Config["sources"];
  readonly budget: ClaimBudget;
  readonly log: Logger;
}): Source | undefined {
  const { presets } = deps.config;
  if (!presets.some(isIstio)) return undefined;
  return graphSource<IstioObject>(deps, {
    kinds: presets.includes("istio-virtualservice") ? [GATEWAYS, VIRTUAL_SERVICES] : [GATEWAYS],
    claimsOf: (objects) => istioClaims(objects, { gateways: presets.includes("istio-gateway") }),
  });
}
