import type { EvaluatedClaim } from "./claim-policy.ts";
import { compareNames } from "./hostnames.ts";
import type { PublishedLine } from "./published-names.ts";
import type { Claim, ObjectRef, Reason } from "./types.ts";
import { isWildcard } from "./wildcards.ts";

/**
 * The part of a claim in the decision on its name. `wants`: it may get the name. `undecided`: what is published for its
 * namespace stays. `blocks`: it is not mapped, and keeps later claims of other namespaces from the name. `mentions`: it
 * has no evidence of a target. Undefined: the policy refuses it, and it counts for nothing.
 */
export type Part = "wants" | "undecided" | "blocks" | "mentions" | undefined;

export interface IndexedClaim extends EvaluatedClaim {
  readonly object: string;
  readonly part: Part;
  /** Whether it is refused because its name is that of a Service in the cluster. */
  readonly inCluster: boolean;
}

/**
 * Codes of the reasons for which an object does without a mapping. Its owner serves the name in another way, so nobody
 * else gets it.
 */
const DOES_WITHOUT: ReadonlySet<string> = new Set([
  "dns-elsewhere",
  "ip-mode-proxy",
  "load-balancer-hostname",
  "header-not-expected",
  "ignored",
]);
/** Returns the part of a claim after the policy has evaluated it. */
export function partOf({ claim, name, refused }: EvaluatedClaim): Part {
  if (refused === undefined) return "wants";
  if (refused !== claim.target) return undefined;
  if (claim.undecided) return "undecided";
  const doesWithout = DOES_WITHOUT.has(refused.code) || claim.lacking?.isElsewhere === true;
  return doesWithout && !isWildcard(name) ? "blocks" : "mentions";
}

/**
 * Whether a claim keeps later claims of other namespaces away from its name, if nobody has it. One that only lacks
 * evidence does not.
 */
function keepsAway({ part, claim }: IndexedClaim): boolean {
  return part === "blocks" || (part === "undecided" && claim.lacking === undefined);
}

/**
 * Returns the claim that gets a name. The oldest object whose target DNS leads to wins, then the oldest one of the
 * namespace that has the name, then the oldest one.
 *
 * @param claims the claims of the name within the quotas of their namespaces.
 * @param line the published line of the name; undefined: it is not published.
 */
export function winnerOf(claims: readonly IndexedClaim[], line: PublishedLine | undefined): IndexedClaim | undefined {
  const may = line?.holder === undefined ? mayTake(claims) : mayMove(claims, line.holder, line.target);
  const wanting = claims.filter((indexed) => indexed.part === "wants" && may(indexed));
  return (
    oldest(wanting.filter(({ claim }) => claim.verified)) ??
    oldest(wanting.filter(({ claim }) => claim.from.namespace === line?.holder)) ??
    oldest(wanting)
  );
}

/** Whether another namespace claims the name for another target, and neither DNS nor the map decides. */
export function isDisputed(
  winner: IndexedClaim | undefined,
  claims: readonly IndexedClaim[],
  line: PublishedLine | undefined,
): boolean {
  if (winner === undefined || winner.claim.verified || line?.holder !== undefined) return false;
  const { from, target } = winner.claim;
  return claims.some(
    ({ part, claim }) =>
      (part === "wants" || part === "undecided") &&
      claim.from.namespace !== from.namespace &&
      (claim.maybe ?? claim.target) !== target,
  );
}

/** The reason for a disputed name after the map was lost. */
export const LOST: Reason = {
  code: "map-lost",
  text: "another namespace claims the name, too, and the map that named its holder is lost; wait ten minutes",
};

/**
 * Who may take a name that nobody has: any claim, but none that is younger than a claim of another namespace that
 * blocks or is not decided. If DNS leads to its target, age does not count.
 */
function mayTake(claims: readonly IndexedClaim[]): (claim: IndexedClaim) => boolean {
  const [first, ofAnother] = oldestOfTwo(claims.filter(keepsAway));
  return (indexed) => {
    const { verified, from, target } = indexed.claim;
    const other = first?.claim.from.namespace === from.namespace ? ofAnother : first;
    if (other === undefined || verified || other.claim.maybe === target) return true;
    return compareClaims(indexed, other) < 0;
  };
}

/**
 * Who may get a published name: its holder, a claim on the published target, and a claim whose target DNS leads to,
 * unless DNS leads to the published one as well.
 */
function mayMove(
  claims: readonly IndexedClaim[],
  holder: string,
  target: string | undefined,
): (claim: IndexedClaim) => boolean {
  const isOfHolder = ({ claim }: IndexedClaim) => claim.from.namespace === holder || claim.target === target;
  const staysByDns = claims.some((indexed) => indexed.claim.verified && isOfHolder(indexed));
  return (indexed) => isOfHolder(indexed) || (indexed.claim.verified === true && !staysByDns);
}

/**
 * Why a claim does not get its name: another claim does, or nobody.
 *
 * @param claims all claims of the name.
 */
export function conflictOf(
  { claim }: IndexedClaim,
  winner: IndexedClaim | undefined,
  { claims, line }: { readonly claims: readonly IndexedClaim[]; readonly line: PublishedLine | undefined },
): Reason {
  const isVerified = winner?.claim.verified === true && !claim.verified;
  if (!isVerified && line?.holder !== undefined && line.holder !== claim.from.namespace) {
    const target = line.target === undefined ? "" : `, with the target ${line.target}`;
    return conflict(`the namespace ${line.holder} has the name${target}; ${BY_POLICY}`);
  }
  if (winner !== undefined) {
    const why = isVerified ? "has the target that DNS leads to" : "is older";
    return conflict(`${show(winner)} ${why} and maps the name to the target ${String(winner.claim.target)}`);
  }
  const blocking = oldest(
    claims.filter((other) => keepsAway(other) && other.claim.from.namespace !== claim.from.namespace),
  );
  if (blocking === undefined) return conflict(`an older object claims the name; ${BY_POLICY}`);
  const what = `${blocking.name} without a mapping (${blocking.refused?.code})`;
  return conflict(`${show(blocking)} is older, and claims ${what}; ${BY_POLICY}`);
}

const BY_POLICY = "policy.claims decides which namespaces may claim it";

function conflict(text: string): Reason {
  return { code: "conflict", text };
}

function show({ claim: { from } }: IndexedClaim): string {
  return `${from.kind} ${from.namespace}/${from.name}`;
}

/** Returns the claim of the oldest object. */
export function oldest(claims: readonly IndexedClaim[]): IndexedClaim | undefined {
  let first: IndexedClaim | undefined;
  for (const claim of claims) if (first === undefined || compareClaims(claim, first) < 0) first = claim;
  return first;
}

/** Returns the claim of the oldest object, and that of the oldest object in another namespace, if they exist. */
function oldestOfTwo(claims: readonly IndexedClaim[]): IndexedClaim[] {
  const first = oldest(claims);
  const ofAnother = oldest(claims.filter(({ claim }) => claim.from.namespace !== first?.claim.from.namespace));
  return [first, ofAnother].filter((one) => one !== undefined);
}

/** Sorts by age, oldest first, then by namespace, name and key, so that the order of events does not matter. */
export function compareClaims(a: IndexedClaim, b: IndexedClaim): number {
  return (
    compareNames(a.claim.created, b.claim.created) ||
    compareNames(a.claim.from.namespace, b.claim.from.namespace) ||
    compareNames(a.claim.from.name, b.claim.from.name) ||
    compareNames(a.object, b.object)
  );
}

/** Whether two references are to the same object. */
export function sameObject(a: ObjectRef, b: ObjectRef): boolean {
  return a.namespace === b.namespace && a.name === b.name && a.kind === b.kind;
}

/** Code of the warning about a name that stays mapped although its object has no evidence of the target any more. */
const KEPT = "kept";

/** The warning of the status about a name that stays because the claim of its namespace is not decided. */
export function undecidedWarning({ code, text }: Reason, { lacking }: Claim): Reason {
  if (lacking === undefined) return { code, text };
  return { code: KEPT, text: `it stays mapped, and a fresh install would not map it: ${text} (${code})` };
}
