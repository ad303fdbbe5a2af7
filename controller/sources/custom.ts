import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ClaimBudget } from "./claim-budget.ts";
import { type ClaimingKind, customKind, PRESETS } from "./custom/presets.ts";
import { serviceClaims } from "./custom/service-claims.ts";
import { isIstio } from "./istio.ts";
import type { Kept } from "./kind-limit.ts";
import { type OptionalKind, OptionalKinds } from "./optional-kinds.ts";
import type { Source, View } from "./types.ts";

/** What is kept of an object: its claims. */
interface Claiming extends Kept {
  readonly views: readonly View[];
}

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
  const wanted = kindsOf(deps.config).map(followed);
  if (wanted.length === 0) return undefined;
  const kinds = new OptionalKinds(deps, wanted);
  return {
    start(sink, onKnown) {
      kinds.start({ sink, onKnown, onChange: (object, kept) => kinds.report(object, kept?.views ?? []) });
    },
    state: () => kinds.state(),
    resourceOf: (object) => kinds.resourceOf(object),
    stop: () => kinds.stop(),
  };
}

/** Of an object without claims nothing is kept. Several kinds may have one name, so the prefix is the kind's place. */
function followed({ read, ...names }: ClaimingKind, place: number): OptionalKind<Claiming> {
  return {
    ...names,
    prefix: `${place} `,
    named: true,
    project(raw, kind) {
      const views = read(raw, kind);
      return views[0] && { ref: views[0].from, created: views[0].created, views };
    },
    pick: (kept, keeps) => ({ ...kept, views: kept.views.filter(({ hostname }) => keeps(hostname)) }),
  };
}

function kindsOf({ presets, custom, services }: Config["sources"]): ClaimingKind[] {
  const kinds = presets.flatMap((name) => (isIstio(name) ? [] : PRESETS[name])).concat(custom.map(customKind));
  if (!services.enabled) return kinds;
  const read: ClaimingKind["read"] = (raw) => serviceClaims(raw, services.annotationPrefixes);
  return [...kinds, { group: "", versions: ["v1"], resource: "services", read }];
}
