import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { ClaimSink, RoutingHints, Source, UnresolvedClaim, UnresolvedSource } from "../sources/types.ts";
import type { TargetResolver } from "./resolver.ts";

/** Objects with equal hints, and the resolver's answer for them. */
interface Group {
  readonly key: string;
  readonly hints: RoutingHints;
  readonly objects: Set<string>;
  /** Undefined until it was resolved. */
  target: string | Reason | undefined;
  /** The last target that it had. */
  incumbent: string | undefined;
}

/** An unresolved claim whose hints are shared with all equal ones: there are many objects, but few distinct hints. */
interface HeldClaim extends Omit<UnresolvedClaim, "hints"> {
  readonly group: Group | Reason;
}

/**
 * Several sources as one, with each claim resolved to its target. Objects share few distinct hints (a class, an
 * address). So after a change each of them is resolved once, and only the objects with a different answer are
 * reported again. Synced when all sources and the resolver are. Object keys include the source's index, so that two
 * kinds never share a key.
 */
export function resolveSources(sources: readonly UnresolvedSource[], resolver: TargetResolver): Source {
  // One odd group of hints costs its own objects: the other groups are resolved.
  const resolve = ({ hints, incumbent }: Group): string | Reason => {
    try {
      return resolver.resolve(hints, incumbent);
    } catch (error) {
      return { code: "target-failed", text: `its target could not be found: ${describeError(error)}` };
    }
  };
  const objects = new Map<string, readonly HeldClaim[]>();
  const groups = new Groups();
  let ready = false;

  const setTarget = (group: Group, target: string | Reason): string | Reason => {
    if (typeof target === "string") group.incumbent = target;
    group.target = target;
    return target;
  };
  const claimsOf = (object: string): Claim[] =>
    (objects.get(object) ?? []).map(({ group, ...claim }) => {
      if (!isGroup(group)) return { ...claim, target: group };
      return { ...claim, ...resolved(group.hints, group.target ?? setTarget(group, resolve(group))) };
    });
  const set = (object: string, claims: readonly UnresolvedClaim[]): void => {
    const before = objects.get(object) ?? [];
    const after = claims.map(({ hints, ...claim }) => ({ ...claim, group: groups.join(hints, object) }));
    if (after.length === 0) objects.delete(object);
    else objects.set(object, after);
    const stays = new Set(after.map(({ group }) => group));
    for (const { group } of before) if (!stays.has(group)) groups.leave(group, object);
  };
  const resolveAgain = (sink: ClaimSink): void => {
    if (!ready) return;
    const stale = new Set<string>();
    for (const group of groups.all()) {
      const target = resolve(group);
      if (group.target !== undefined && sameTarget(target, group.target)) continue;
      setTarget(group, target);
      for (const object of group.objects) stale.add(object);
    }
    for (const object of stale) sink(object, claimsOf(object));
  };

  return {
    start(sink, onSynced) {
      const waiting = new Set<object>([...sources, resolver]);
      const synced = (one: object): void => {
        if (waiting.delete(one) && waiting.size === 0) onSynced();
      };
      resolver.start(
        () => resolveAgain(sink),
        () => {
          ready = true;
          for (const object of objects.keys()) sink(object, claimsOf(object));
          synced(resolver);
        },
      );
      for (const [place, source] of sources.entries()) {
        source.start(
          (key, claims) => {
            const object = `${place}/${key}`;
            set(object, claims);
            // Reported once the resolver is synced; until then it is only stored.
            if (ready) sink(object, claimsOf(object));
          },
          () => synced(source),
        );
      }
    },
    state: () => [...sources, resolver].flatMap((one) => one.state()),
    resourceOf: (object) => sources[Number.parseInt(object, 10)]?.resourceOf?.(object.slice(object.indexOf("/") + 1)),
    stop: async () => {
      await Promise.all([...sources, resolver].map((one) => one.stop()));
    },
  };
}

function resolved({ addresses, chosen }: RoutingHints, target: string | Reason) {
  return { target, publicAddresses: addresses, ...(chosen !== undefined && { chosen: true as const }) };
}

class Groups {
  readonly #byKey = new Map<string, Group>();

  join(hints: RoutingHints | Reason, object: string): Group | Reason {
    if ("code" in hints) return hints;
    const key = hintsKey(hints);
    let group = this.#byKey.get(key);
    if (group === undefined) {
      group = { key, hints, objects: new Set(), target: undefined, incumbent: undefined };
      this.#byKey.set(key, group);
    }
    group.objects.add(object);
    return group;
  }

  leave(group: Group | Reason, object: string): void {
    if (!isGroup(group)) return;
    group.objects.delete(object);
    if (group.objects.size === 0) this.#byKey.delete(group.key);
  }

  all(): Iterable<Group> {
    return this.#byKey.values();
  }
}

function isGroup(group: Group | Reason): group is Group {
  return "objects" in group;
}

function hintsKey(hints: RoutingHints): string {
  const { className = null, isGatewayClass, controller = null, addresses, ports = null, admitted } = hints;
  const { namespace = null, name = null } = hints.service ?? {};
  const labels = hints.selector === undefined ? null : Object.entries(hints.selector).sort();
  const chosen = hints.chosen === undefined ? null : [hints.chosen.target, hints.chosen.namespace];
  const named = [className, isGatewayClass === true, controller];
  return JSON.stringify([
    ...named,
    addresses,
    ports,
    admitted,
    namespace,
    name,
    labels,
    hints.exportedTo ?? null,
    chosen,
  ]);
}

function sameTarget(a: string | Reason, b: string | Reason): boolean {
  if (typeof a === "string" || typeof b === "string") return a === b;
  return a.code === b.code && a.text === b.text;
}
