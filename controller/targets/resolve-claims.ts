import type { Claim, Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { ClaimSink, LineOf, RoutingHints, Source, UnresolvedClaim, UnresolvedSource } from "../sources/types.ts";
import type { HeaderReason, TargetHeaders, TargetResolver } from "./resolver.ts";

/** A target, or the reason why there is none. */
interface Answer {
  readonly target: string | Reason;
  /** Why the names of the target are not mapped to it. */
  readonly against?: HeaderReason | undefined;
  /** A problem of the target. */
  readonly warning?: Reason | undefined;
}

/** Objects of one namespace with equal hints, and the resolver's answer for them. */
interface Group {
  readonly key: string;
  readonly hints: RoutingHints;
  readonly objects: Set<string>;
  /** Undefined until the hints were resolved. */
  answer: Answer | undefined;
  /** The last target of the hints. What was learned for one namespace decides nothing for another. */
  incumbent: string | undefined;
}

/** An unresolved claim that shares its hints with all equal ones. There are many objects, but few distinct hints. */
interface HeldClaim extends Omit<UnresolvedClaim, "hints"> {
  readonly group: Group | Reason;
  /** The target that the name keeps, because evidence for it is only missing. */
  kept?: string | undefined;
}

/**
 * Combines several sources into one, and resolves each claim to its target. Objects of a namespace share few distinct
 * hints (a class, an address). So after a change each distinct hint of a namespace is resolved once, and only objects
 * with a new answer are reported again. The result is synced when all sources and the resolver are. Object keys include
 * the source's index, so that two kinds never share a key.
 */
export function resolveSources(
  sources: readonly UnresolvedSource[],
  resolver: TargetResolver,
  headers?: TargetHeaders,
): Source {
  const claims = new ResolvedClaims(resolver, headers);
  headers?.follow(() => claims.resolveAgain());
  return {
    start(sink, onSynced) {
      const waiting = new Set<object>([...sources, resolver]);
      const synced = (one: object): void => {
        if (waiting.delete(one) && waiting.size === 0) onSynced();
      };
      resolver.start(
        () => claims.resolveAgain(),
        () => {
          claims.begin(sink);
          synced(resolver);
        },
      );
      for (const [place, source] of sources.entries()) {
        source.start(
          (key, each) => claims.set(`${place}/${key}`, each),
          () => synced(source),
        );
      }
    },
    state: () => [...sources, resolver].flatMap((one) => one.state()),
    keep: (lineOf) => claims.keep(lineOf),
    resourceOf: (object) => sources[Number.parseInt(object, 10)]?.resourceOf?.(object.slice(object.indexOf("/") + 1)),
    stop: async () => {
      await Promise.all([...sources, resolver].map((one) => one.stop()));
    },
  };
}

/** The claims of all objects, in groups of equal hints. */
class ResolvedClaims {
  readonly #resolver: TargetResolver;
  readonly #headers: TargetHeaders | undefined;
  readonly #objects = new Map<string, readonly HeldClaim[]>();
  readonly #groups = new Groups();
  /** Objects with names that keep a target without evidence. */
  readonly #keeping = new Set<string>();
  /** Undefined until the resolver is synced. Until then claims are only stored. */
  #sink: ClaimSink | undefined;

  constructor(resolver: TargetResolver, headers: TargetHeaders | undefined) {
    this.#resolver = resolver;
    this.#headers = headers;
  }

  /** Call this when the resolver is synced. It reports all objects, and then each change. */
  begin(sink: ClaimSink): void {
    this.#sink = sink;
    for (const object of this.#objects.keys()) sink(object, this.#claimsOf(object));
  }

  set(object: string, claims: readonly UnresolvedClaim[]): void {
    const before = this.#objects.get(object) ?? [];
    const after = claims.map(
      ({ hints, ...claim }): HeldClaim => ({ ...claim, group: this.#groups.join(hints, claim.from.namespace, object) }),
    );
    this.#keeping.delete(object);
    if (after.length === 0) this.#objects.delete(object);
    else this.#objects.set(object, after);
    const stays = new Set(after.map(({ group }) => group));
    for (const { group } of before) if (!stays.has(group)) this.#groups.leave(group, object);
    if (this.#sink === undefined) return;
    const unproven = after.filter((held) => this.#targetOf(held) === undefined);
    const had = new Map((unproven.length > 0 ? before : []).map((held) => [held.hostname, lastTargetOf(held)]));
    for (const held of unproven) this.#keep(object, held, had.get(held.hostname));
    this.#sink(object, this.#claimsOf(object));
  }

  /** Called for a new leader: see `Source.keep`. */
  keep(lineOf: LineOf): void {
    const reported = new Set<string>();
    for (const { object, held, target } of [...this.#unproven(lineOf)]) {
      for (const each of this.#resume(held.group, target)) reported.add(each);
      if (this.#targetOf(held) === undefined) this.#keep(object, held, target);
      reported.add(object);
    }
    for (const object of reported) this.#sink?.(object, this.#claimsOf(object));
  }

  /** Claims without evidence on published names, by the namespaces that have the names. */
  *#unproven(lineOf: LineOf) {
    for (const [object, claims] of this.#objects) {
      for (const held of claims) {
        const { target, holder = held.from.namespace } = lineOf(held.hostname.toLowerCase()) ?? {};
        if (target === undefined || holder !== held.from.namespace) continue;
        if (lastTargetOf(held) === undefined && this.#mayKeep(held, target)) yield { object, held, target };
      }
    }
  }

  /**
   * Sets the published target as the last target of these hints. Returns the objects that thereby have a target
   * again.
   */
  #resume(group: Group | Reason, target: string | undefined): Iterable<string> {
    if (!isGroup(group) || group.incumbent !== undefined) return [];
    group.incumbent = target;
    return typeof this.#resolve(group).target === "string" ? group.objects : [];
  }

  /** Resolves each group again, and reports the objects whose answer has changed. */
  resolveAgain(): void {
    if (this.#sink === undefined) return;
    const stale = new Set<string>();
    for (const group of this.#groups.all()) {
      const before = group.answer;
      const answer = this.#resolve(group);
      if (before !== undefined && sameAnswer(before, answer)) continue;
      for (const object of group.objects) {
        stale.add(object);
        if (typeof before?.target === "string") this.#keepAll(object, group, before.target);
      }
    }
    for (const object of this.#keeping) if (this.#release(object)) stale.add(object);
    for (const object of stale) this.#sink(object, this.#claimsOf(object));
  }

  #claimsOf(object: string): Claim[] {
    return (this.#objects.get(object) ?? []).map(({ group, kept, ...claim }) => {
      if (!isGroup(group)) return { ...claim, target: group };
      const answer = group.answer ?? this.#resolve(group);
      const { target } = answer;
      if (kept === undefined || typeof target === "string") return { ...claim, ...resolved(group.hints, answer) };
      const shown = this.#answerOf(kept, group);
      return { ...claim, ...resolved(group.hints, shown), kept: target };
    });
  }

  /** Keeps the previous target of a claim if its evidence is only missing. */
  #keep(object: string, held: HeldClaim, target: string | undefined): void {
    if (target === undefined || !this.#mayKeep(held, target)) return;
    held.kept = target;
    this.#keeping.add(object);
  }

  #keepAll(object: string, group: Group, target: string): void {
    for (const held of this.#objects.get(object) ?? []) if (held.group === group) this.#keep(object, held, target);
  }

  /** Releases kept targets that may no longer be kept. Returns whether there were any. */
  #release(object: string): boolean {
    const kept = (this.#objects.get(object) ?? []).filter((held) => held.kept !== undefined);
    const released = kept.filter((held) => !this.#mayKeep(held, held.kept ?? ""));
    for (const held of released) held.kept = undefined;
    if (released.length === kept.length) this.#keeping.delete(object);
    return released.length > 0;
  }

  /** The target by evidence; undefined: no evidence. */
  #targetOf({ group }: HeldClaim): string | undefined {
    const target = isGroup(group) ? (group.answer ?? this.#resolve(group)).target : undefined;
    return typeof target === "string" ? target : undefined;
  }

  #mayKeep({ group }: HeldClaim, target: string): boolean {
    if (!isGroup(group)) return false;
    const answer = (group.answer ?? this.#resolve(group)).target;
    return typeof answer !== "string" && this.#resolver.mayKeep?.(target, group.hints, answer) === true;
  }

  #answerOf(target: string, { hints }: Group): Answer {
    if (hints.ports !== undefined) this.#headers?.want(target, hints.ports);
    const against = this.#headers?.against(target);
    return { target, against, warning: this.#resolver.warningOf?.(target, hints.ports) };
  }

  /** Resolves one group. An error affects only the objects of this group. */
  #resolve(group: Group): Answer {
    const { hints, incumbent } = group;
    let answer: Answer;
    try {
      const target = this.#resolver.resolve(hints, incumbent);
      answer = typeof target === "string" ? this.#answerOf(target, group) : { target };
    } catch (error) {
      const text = `its target could not be found: ${describeError(error)}`;
      answer = { target: { code: "target-failed", text } };
    }
    if (typeof answer.target === "string") group.incumbent = answer.target;
    group.answer = answer;
    return answer;
  }
}

function resolved({ addresses, chosen, ports }: RoutingHints, { target, against, warning }: Answer) {
  return {
    ...(against === undefined || typeof target !== "string" ? { target } : withoutHeader(target, against)),
    publicAddresses: addresses,
    ...(chosen !== undefined && { chosen: true as const }),
    ...(ports && { ports }),
    ...(warning && { warning }),
  };
}

/** The fields of a claim whose names may not have their target: see `Claim.pending` and `Claim.candidate`. */
export function withoutHeader(target: string, { reason, pending }: HeaderReason) {
  return { target: reason, [pending ? "pending" : "candidate"]: target };
}

/** The last target of a name: by evidence, or kept. */
function lastTargetOf({ group, kept }: HeldClaim): string | undefined {
  const target = isGroup(group) ? group.answer?.target : undefined;
  return typeof target === "string" ? target : kept;
}

class Groups {
  readonly #byKey = new Map<string, Group>();

  join(hints: RoutingHints | Reason, namespace: string, object: string): Group | Reason {
    if ("code" in hints) return hints;
    const key = `${namespace} ${hintsKey(hints)}`;
    let group = this.#byKey.get(key);
    if (group === undefined) {
      group = { key, hints, objects: new Set(), answer: undefined, incumbent: undefined };
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
  const { gateway, inside } = hints;
  const ofGateway = gateway === undefined ? null : [gateway.namespace, gateway.name, inside?.text ?? null];
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
    ofGateway,
  ]);
}

function sameAnswer(a: Answer, b: Answer): boolean {
  if (a.warning?.text !== b.warning?.text || a.against?.reason.text !== b.against?.reason.text) return false;
  if (typeof a.target === "string" || typeof b.target === "string") return a.target === b.target;
  return a.target.code === b.target.code && a.target.text === b.target.text;
}
