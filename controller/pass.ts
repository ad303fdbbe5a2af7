import { getOrAdd } from "#hostmap/multi-map.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { RoutingHints } from "./sources/types.ts";
import type { Found, Holding } from "./targets/find-target.ts";
import type { TargetHeaders, TargetLocations, TargetResolver } from "./targets/resolver.ts";

interface PassDeps {
  readonly resolver: Pick<TargetResolver, "find">;
  /** Receives the ports that objects use. Undefined: no ingress controller is asked for a header. */
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
    const ofHints = getOrAdd(this.#found, textOf(hints), () => new Map<string, Found>());
    const key = `${namespace} ${holding.held} ${holding.likely}`;
    return getOrAdd(ofHints, key, () => this.#find(hints, holding));
  }

  /** An error affects only objects with these hints. */
  #find(hints: RoutingHints, holding: Holding): Found {
    const { resolver, headers } = this.#deps;
    try {
      const found = resolver.find(hints, holding);
      const target = typeof found.target === "string" ? found.target : found.maybe;
      if (target !== undefined && hints.ports !== undefined) headers?.want(target, hints.ports);
      return found;
    } catch (error) {
      const target = { code: "object-failed", text: `its target could not be found: ${describeError(error)}` };
      return holding.held === undefined ? { target } : { target, undecided: true, maybe: holding.held };
    }
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

const TEXTS = new WeakMap<object, string>();

/** A text that is equal for equal hints. */
export function textOf(hints: object): string {
  const text = TEXTS.get(hints) ?? JSON.stringify(hints);
  TEXTS.set(hints, text);
  return text;
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
