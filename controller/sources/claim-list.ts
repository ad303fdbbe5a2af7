import { foldCase } from "#hostmap/hostnames.ts";
import type { ObjectRef, Reason } from "#hostmap/types.ts";
import { isWildcard } from "#hostmap/wildcards.ts";
import { copied } from "./raw-object.ts";
import type { RoutingHints, View } from "./types.ts";

/**
 * Maximum number of names that one object may claim, valid or not. The rest is ignored and reported. A resource
 * without a schema may have a million.
 */
export const MAX_NAMES_PER_OBJECT = 1_000;

const TEXTS = new WeakMap<object, string>();

/** A text that is equal for equal hints. */
export function textOfHints(hints: object): string {
  const text = TEXTS.get(hints) ?? JSON.stringify(hints);
  TEXTS.set(hints, text);
  return text;
}

/**
 * Collects the claims of one object, with each name once per routing hints. A reason is dropped if the name also has
 * routing hints.
 */
export class ClaimList {
  readonly #from: ObjectRef;
  readonly #created: string;
  readonly #anyDepth: boolean;
  /** Claims by name, then by hints. With a list of hints, many hints would take quadratic time. */
  readonly #byName = new Map<string, Map<string, View>>();
  #leftOut = 0;
  #firstLeftOut = "";

  /** `anyDepth`: whether wildcards of the object cover any number of labels. */
  constructor(object: { readonly ref: ObjectRef; readonly created: string }, { anyDepth = false } = {}) {
    this.#from = object.ref;
    this.#created = object.created;
    this.#anyDepth = anyDepth;
  }

  /** `name` is the name as written in the object. */
  add(name: string, hints: RoutingHints | Reason): void {
    const hostname = copied(name);
    const key = foldCase(hostname);
    const known = this.#byName.get(key);
    const text = textOfHints(hints);
    if (known === undefined) {
      if (this.#byName.size < MAX_NAMES_PER_OBJECT)
        this.#byName.set(key, new Map([[text, this.#claim(hostname, hints)]]));
      else if (this.#leftOut++ === 0) this.#firstLeftOut = hostname;
      return;
    }
    if ("code" in hints || known.has(text)) return;
    const [[first, view] = []] = known;
    if (first !== undefined && view !== undefined && "code" in view.hints) known.delete(first);
    known.set(text, this.#claim(hostname, hints));
  }

  addAll(names: Iterable<string>, hints: RoutingHints | Reason): this {
    for (const name of names) this.add(name, hints);
    return this;
  }

  /** Returns a new list at each call, so call it only once per object. */
  get all(): View[] {
    const claims = [...this.#byName.values()].flatMap((claims) => [...claims.values()]);
    if (this.#leftOut === 0) return claims;
    const text = `the ${this.#from.kind} has more than ${MAX_NAMES_PER_OBJECT} names; ${this.#leftOut} are ignored`;
    return [...claims, this.#claim(this.#firstLeftOut, { code: "too-many-names", text })];
  }

  #claim(hostname: string, hints: RoutingHints | Reason): View {
    const claim = { hostname, from: this.#from, created: this.#created, hints };
    return this.#anyDepth && isWildcard(hostname) ? { ...claim, anyDepth: true } : claim;
  }
}
