import type { Config } from "#lib/config/schema.ts";
import { serviceClaims } from "./custom/claims.ts";
import { type ClaimingKind, customKind, PRESETS } from "./custom/presets.ts";
import type { Kept, Kind, SourceDeps } from "./followed-kind.ts";
import { isIstio } from "./istio.ts";
import { KindsSource } from "./kinds-source.ts";
import type { Source, View } from "./types.ts";

/** What is kept of an object: its claims. */
interface Claiming extends Kept {
  readonly views: readonly View[];
}

/**
 * The source of the configured kinds: presets except Istio's, custom kinds, and Services with the external-dns
 * annotation. Undefined: none is configured.
 */
export function customSource(deps: SourceDeps & { readonly config: Config["sources"] }): Source | undefined {
  const kinds = kindsOf(deps.config).map(followed);
  if (kinds.length === 0) return undefined;
  return new KindsSource<Claiming>(deps, { kinds, prepare: () => (kept) => kept.views });
}

/** Of an object without claims nothing is kept. Several kinds may have one name, so the prefix is the kind's place. */
function followed({ read, ...names }: ClaimingKind, place: number): Kind<Claiming> {
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
  return [...kinds, { group: "", versions: ["v1"], resource: "services", builtIn: "Service", read }];
}
