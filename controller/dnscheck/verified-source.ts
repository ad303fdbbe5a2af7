import { parseHostname } from "#hostmap/hostnames.ts";
import type { Claim } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { ClaimSink, Source } from "../sources/types.ts";
import type { TargetHeaders } from "../targets/resolver.ts";
import type { AddressBook } from "./address-book.ts";
import {
  claimWithAuto,
  claimWithFirst,
  type LackingClaim,
  type TargetedClaim,
  type WitnessedClaim,
} from "./auto-claims.ts";
import type { ExpectedClaim } from "./name-record.ts";
import type { DnsVerifier } from "./verifier.ts";

export type VerifyMode = "auto" | "warn" | "enforce";

interface VerifiedDeps {
  readonly verifier: DnsVerifier;
  readonly mode: VerifyMode;
  readonly book: Pick<AddressBook, "mapsAlways" | "warningOf" | "against">;
  /** Reports changes of `book.against`. Undefined: no ingress controller is asked. */
  readonly headers?: Pick<TargetHeaders, "follow"> | undefined;
  /** Whether the namespace's quota has room for the name. Only such names are looked up. */
  readonly isWithinQuota: (namespace: string, name: string) => boolean;
}

/** Objects with at most this many claims are reported at once. Changes of larger ones are combined for COMBINE_MS. */
const FEW_CLAIMS = 20;
const COMBINE_MS = 100;

const NOT_VERIFIED = {
  code: "dns-not-verified",
  text: "the cluster's DNS has not yet been seen to lead it to its load balancer (policy.verifyDns: enforce)",
};

/**
 * Passes names and their targets to a verifier. With `enforce`, a claim gets a reason instead of its target while its
 * name does not resolve to that target. With `auto`, `claimWithAuto` decides. With `warn`, claims pass unchanged.
 */
export function verifiedSource(source: Source, deps: VerifiedDeps): Source {
  const { verifier, mode, headers, isWithinQuota } = deps;
  const claimants = new Claimants(verifier);
  /** Claims by object, needed to report them again. Empty if claims pass unchanged. */
  const objects = new Map<string, readonly Claim[]>();
  const late = new Set<string>();
  /** Objects with names that DNS leads to another target than that of the object. The source does not follow it. */
  const moved = new Set<string>();
  let sink: ClaimSink = () => {};

  const report = (object: string): void => {
    const before = objects.get(object) ?? [];
    const after = before.map((claim) => withDecision(claim, deps));
    if (after.some((claim, index) => isMoved(before[index], claim))) moved.add(object);
    else moved.delete(object);
    sink(object, after);
  };
  headers?.follow(() => {
    for (const object of [...moved]) report(object);
  });
  const reporter = new Reconciler({
    reconcile: () => {
      const all = [...late];
      late.clear();
      for (const object of all) report(object);
      return undefined;
    },
  });

  return {
    start(given, onSynced) {
      sink = given;
      const onDecision = (name: string) => {
        for (const object of mode === "warn" ? [] : claimants.of(name)) {
          const few = (objects.get(object)?.length ?? 0) <= FEW_CLAIMS;
          if (few) report(object);
          else {
            late.add(object);
            reporter.enqueue(COMBINE_MS);
          }
        }
      };
      verifier.start(onDecision, (name) =>
        claimants.namespacesOf(name).filter((namespace) => isWithinQuota(namespace, name)),
      );
      source.start(
        (object, claims) => {
          claimants.follow(object, claims[0]?.from.namespace ?? "", expectations(claims, mode));
          if (mode === "warn") return sink(object, claims);
          if (claims.length === 0) objects.delete(object);
          else objects.set(object, claims);
          report(object);
        },
        () => {
          verifier.endStart();
          onSynced();
        },
      );
    },
    state: () => source.state(),
    resourceOf: (object) => source.resourceOf?.(object),
    keep: (published) => source.keep?.(published),
    stop: async () => {
      verifier.stop();
      await Promise.all([reporter.stop(), source.stop()]);
    },
  };
}

function withDecision(claim: Claim, { verifier, mode, book }: VerifiedDeps): Claim {
  const parsed = isExpected(claim, mode) ? parseHostname(claim.hostname) : undefined;
  if (!isExpected(claim, mode) || parsed === undefined || parsed.kind === "invalid") return claim;
  const decision = verifier.decisionOf(parsed.name, expectedClaim(claim, mode));
  if (!hasTarget(claim)) return claimWithFirst(claim, decision, book);
  const state = verifier.stateOf(parsed.name);
  return decidedClaim({ claim, decision, state, always: book.mapsAlways(claim.target), book }, mode);
}

function isMoved(before: Claim | undefined, after: Claim): boolean {
  const target = targetOf(after);
  return target !== undefined && target !== targetOf(before);
}

/** The target that a claim has or may get. */
function targetOf(claim: Claim | undefined): string | undefined {
  const { target, pending, candidate } = claim ?? {};
  return typeof target === "string" ? target : (pending ?? candidate);
}

/** Applies the DNS evidence to a claim. */
export function decidedClaim(witnessed: WitnessedClaim, mode: VerifyMode): Claim {
  const { claim, decision } = witnessed;
  if (mode === "auto") return claimWithAuto(witnessed);
  if (mode === "warn" || decision === "verified" || decision === "external") return claim;
  // `pending` keeps a published name. After a restart, DNS may answer with our own addresses, because a publisher
  // gave the name to DNS.
  if (decision === "unknown") return { ...claim, target: NOT_VERIFIED, pending: claim.target };
  return { ...claim, target: decision };
}

/** The objects that claim each name. A name is verified while any object claims it. */
class Claimants {
  readonly #verifier: DnsVerifier;
  /** By name: the expected claim of each object. */
  readonly #byName = new Map<string, Map<string, ExpectedClaim>>();
  readonly #objects = new Map<string, { readonly namespace: string; readonly names: readonly string[] }>();

  constructor(verifier: DnsVerifier) {
    this.#verifier = verifier;
  }

  of(name: string): Iterable<string> {
    return this.#byName.get(name)?.keys() ?? [];
  }

  namespacesOf(name: string): string[] {
    return [...this.of(name)].flatMap((object) => this.#objects.get(object)?.namespace ?? []);
  }

  follow(object: string, namespace: string, expected: ReadonlyMap<string, ExpectedClaim>): void {
    const before = this.#objects.get(object)?.names ?? [];
    if (expected.size === 0) this.#objects.delete(object);
    else this.#objects.set(object, { namespace, names: [...expected.keys()] });
    for (const name of before) {
      if (expected.has(name)) continue;
      this.#byName.get(name)?.delete(object);
      this.#update(name);
    }
    for (const [name, claim] of expected) {
      const claims = this.#byName.get(name) ?? new Map<string, ExpectedClaim>();
      this.#byName.set(name, claims.set(object, claim));
      this.#update(name);
    }
  }

  #update(name: string): void {
    const claims = [...(this.#byName.get(name)?.values() ?? [])];
    if (claims.length > 0) {
      this.#verifier.expect(name, claims);
      return;
    }
    this.#byName.delete(name);
    this.#verifier.forget(name);
  }
}

/** Names and wildcards with their expected claims. Skips invalid names, and claims about which DNS decides nothing. */
function expectations(claims: readonly Claim[], mode: VerifyMode): Map<string, ExpectedClaim> {
  const expected = new Map<string, ExpectedClaim>();
  for (const claim of claims) {
    const parsed = isExpected(claim, mode) ? parseHostname(claim.hostname) : undefined;
    if (!isExpected(claim, mode) || parsed === undefined || parsed.kind === "invalid") continue;
    expected.set(parsed.name, expectedClaim(claim, mode));
  }
  return expected;
}

/** With `auto`, only addresses of the target count: those of the object may belong to another controller. */
export function expectedClaim(claim: TargetedClaim | LackingClaim, mode: VerifyMode): ExpectedClaim {
  if (!hasTarget(claim)) return { target: undefined, byClass: claim.lacking.byClass, publicAddresses: [] };
  const { target, publicAddresses = [] } = claim;
  return { target, publicAddresses: mode === "auto" ? [] : publicAddresses };
}

/** Whether DNS decides about a claim. Only with `auto` does it give a name its first target. */
export function isExpected(claim: Claim, mode: VerifyMode): claim is TargetedClaim | LackingClaim {
  return hasTarget(claim) || (mode === "auto" && claim.lacking !== undefined);
}

export function hasTarget(claim: Claim): claim is TargetedClaim {
  return typeof claim.target === "string";
}
