import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { type GroupWatch, watchGroup } from "./api-discovery.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { type ClaimingKind, customKind, PRESETS } from "./custom/presets.ts";
import { serviceClaims } from "./custom/service-claims.ts";
import { isIstio } from "./istio.ts";
import { type PickNames, SourceLimit } from "./limited-objects.ts";
import { OptionalInformer, type OptionalKind } from "./optional-informer.ts";
import type { Source, View } from "./types.ts";

/**
 * The source of the configured kinds: presets except Istio's, custom kinds, and Services with the external-dns
 * annotation. Undefined: none is configured.
 */
export function customSource(deps: {
  readonly client: KubeClient;
  readonly config: Config["sources"];
  readonly budget: ClaimBudget;
  readonly log: Logger;
}): Source | undefined {
  const { client, config, budget, log } = deps;
  const wanted = kindsOf(config);
  if (wanted.length === 0) return undefined;
  const groups = new Map<string, GroupWatch>();
  const kinds: OptionalKind[] = [];
  const discoveryOf = (group: string): GroupWatch => {
    const watch = groups.get(group) ?? watchGroup({ client, group, everyMs: config.discoverySeconds * 1000 });
    groups.set(group, watch);
    return watch;
  };
  return {
    start(sink, onSynced) {
      const limit = new SourceLimit(budget, sink);
      for (const [place, { read, ...names }] of wanted.entries()) {
        const kind = new OptionalInformer<readonly View[]>({
          ...names,
          client,
          discovery: discoveryOf(names.group),
          named: true,
          project: (raw, api) => someOf(read(raw, api)),
          limit: limit.ofLists({ prefix: `${place} `, pick: pickClaims, originOf }),
          onChange: (key, claims) => limit.sink(`${place} ${key}`, claims ?? []),
          onKnown: () => {
            if (kinds.length === wanted.length && kinds.every(({ known }) => known)) onSynced();
          },
          removedMs: config.removedKindSeconds * 1000,
          log,
        });
        kinds.push(kind);
      }
    },
    state: () => kinds.map(({ state }) => state),
    resourceOf: (object) => kinds[Number.parseInt(object, 10)]?.resource,
    stop: async () => {
      await Promise.all([...[...groups.values()].map((group) => group.stop()), ...kinds.map((kind) => kind.stop())]);
    },
  };
}

/** Undefined if there is none: of an object without claims nothing is kept. */
function someOf(claims: readonly View[]): readonly View[] | undefined {
  return claims.length > 0 ? claims : undefined;
}

function originOf([first]: readonly View[]) {
  return { ref: first?.from ?? { kind: "", namespace: "", name: "" }, created: first?.created ?? "" };
}

const pickClaims: PickNames<readonly View[]> = (claims, keeps) => claims.filter(({ hostname }) => keeps(hostname));

function kindsOf({ presets, custom, services }: Config["sources"]): ClaimingKind[] {
  const kinds = presets.flatMap((name) => (isIstio(name) ? [] : PRESETS[name])).concat(custom.map(customKind));
  if (!services.enabled) return kinds;
  const read: ClaimingKind["read"] = (raw) => serviceClaims(raw, services.annotationPrefixes);
  return [...kinds, { group: "", versions: ["v1"], resource: "services", read }];
}
