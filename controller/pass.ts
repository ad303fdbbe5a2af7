import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { textOfHints } from "./sources/claim-list.ts";
import type { RoutingHints } from "./sources/types.ts";
import { type FindDeps, type Found, findTarget, type Holding } from "./targets/find-target.ts";
import type { TargetHeaders, TargetLocations } from "./targets/resolver.ts";

interface PassDeps extends Omit<FindDeps, "headers"> {
  readonly headers?: Pick<TargetHeaders, "against" | "want"> | undefined;
  readonly locations: Pick<TargetLocations, "addressesOf" | "mapsAlways" | "warningOf">;
}

/** One pass over objects. Equal hints of a namespace are resolved once, for each target that their names have. */
export class Pass {
  readonly #deps: PassDeps;
  /** By hints, then by namespace and held target. */
  readonly #found = new Map<string, Map<string, Found>>();
  readonly #facts = new Map<string, string>();

  constructor(deps: PassDeps) {
    this.#deps = deps;
  }

  find(hints: RoutingHints, namespace: string, holding: Holding): Found {
    const ofHints = getOrAdd(this.#found, textOfHints(hints), () => new Map<string, Found>());
    const key = `${namespace} ${holding.held} ${holding.likely}`;
    return getOrAdd(ofHints, key, () => findTarget(hints, holding, this.#deps));
  }

  /** What the witnesses know about two targets, as one text. */
  factsOf(one: string | undefined, other: string | undefined): string {
    const facts = one === undefined ? "" : this.#factsOf(one);
    return other === undefined || other === one ? facts : facts + this.#factsOf(other);
  }

  #factsOf(target: string): string {
    return getOrAdd(this.#facts, target, () => {
      const { locations, headers } = this.#deps;
      const against = headers?.against(target);
      const known = [against?.reason, against?.pending, locations.mapsAlways(target), locations.warningOf(target)];
      return JSON.stringify([target, locations.addressesOf(target), ...known]);
    });
  }
}

/** Whether what was decided about two claims is the same. */
export function isAlike(one: Found & Pick<Claim, "verified">, other: typeof one | undefined): boolean {
  const isSame = one.undecided === other?.undecided && one.maybe === other?.maybe && one.verified === other?.verified;
  if (!isSame || JSON.stringify(one.lacking) !== JSON.stringify(other?.lacking)) return false;
  return reasonText(one.target) === reasonText(other?.target) && reasonText(one.warning) === reasonText(other?.warning);
}

function reasonText(value: string | Reason | undefined): string | undefined {
  return typeof value === "object" ? `${value.code} ${value.text}` : value;
}
