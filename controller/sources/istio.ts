import { show } from "#hostmap/hostnames.ts";
import type { Config } from "#lib/config/schema.ts";
import type { PresetName } from "#lib/config/sources.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { watchGroup } from "./api-discovery.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { IstioRegistry } from "./istio/istio-registry.ts";
import { type GatewayView, type VirtualServiceView, viewGateway, viewVirtualService } from "./istio/view.ts";
import { type PickNames, SourceLimit } from "./limited-objects.ts";
import { OptionalInformer, type OptionalKind, resourceOfKind } from "./optional-informer.ts";
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
  const { client, config, budget, log } = deps;
  if (!config.presets.some(isIstio)) return undefined;
  const discovery = watchGroup({ client, group: KIND.group, everyMs: config.discoverySeconds * 1000 });
  const kinds: OptionalKind[] = [];
  return {
    start(sink, onSynced) {
      const onError = (key: string, error: unknown) =>
        log.error({ code: "object-failed", object: show(key) }, describeError(error));
      const limit = new SourceLimit(budget, sink);
      const registry = new IstioRegistry({ gateways: config.presets.includes("istio-gateway"), onError }, limit.sink);
      const readsServices = config.presets.includes("istio-virtualservice");
      const onKnown = () => {
        if (kinds.length !== (readsServices ? 2 : 1) || kinds.some(({ known }) => !known)) return;
        registry.open();
        onSynced();
      };
      const removedMs = config.removedKindSeconds * 1000;
      const common = { client, discovery, named: true, removedMs, log, onKnown };
      kinds.push(
        new OptionalInformer({
          ...common,
          ...ISTIO_KINDS["istio-gateway"],
          project: viewGateway,
          limit: limit.ofKind("Gateway ", pickServerHosts),
          onChange: (key, view) => registry.setGateway(key, view),
        }),
      );
      if (!readsServices) return;
      kinds.push(
        new OptionalInformer({
          ...common,
          ...ISTIO_KINDS["istio-virtualservice"],
          project: viewVirtualService,
          limit: limit.ofKind("VirtualService ", pickHosts),
          onChange: (key, view) => registry.setVirtualService(key, view),
        }),
      );
    },
    state: () => kinds.map(({ state }) => state),
    resourceOf: (object) => resourceOfKind(kinds, object),
    stop: async () => {
      await Promise.all([discovery.stop(), ...kinds.map((kind) => kind.stop())]);
    },
  };
}

const pickServerHosts: PickNames<GatewayView> = (view, keeps) => ({
  ...view,
  hosts: view.hosts.filter(({ name }) => keeps(name)),
});
const pickHosts: PickNames<VirtualServiceView> = (view, keeps) => ({ ...view, hosts: view.hosts.filter(keeps) });
