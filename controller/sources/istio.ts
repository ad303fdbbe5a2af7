import type { Config } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import type { Kind, SourceDeps } from "./followed-kind.ts";
import { type IstioObject, istioClaims } from "./istio/claims.ts";
import { type GatewayView, type VirtualServiceView, viewGateway, viewVirtualService } from "./istio/view.ts";
import { KindsSource } from "./kinds-source.ts";
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

const GATEWAYS: Kind<GatewayView> = {
  ...ISTIO_KINDS["istio-gateway"],
  prefix: "Gateway ",
  named: true,
  isShared: true,
  project: viewGateway,
  pick: (view, keeps) => ({ ...view, hosts: view.hosts.filter(({ name }) => keeps(name)) }),
};
const VIRTUAL_SERVICES: Kind<VirtualServiceView> = {
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
export function istioSource(deps: SourceDeps & { readonly config: Config["sources"] }): Source | undefined {
  const { presets } = deps.config;
  if (!presets.some(isIstio)) return undefined;
  return new KindsSource<IstioObject>(deps, {
    kinds: presets.includes("istio-virtualservice") ? [GATEWAYS, VIRTUAL_SERVICES] : [GATEWAYS],
    prepare: (objects) => istioClaims(objects, { gateways: presets.includes("istio-gateway") }),
  });
}
