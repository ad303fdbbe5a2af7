import { parseHostname } from "#hostmap/hostnames.ts";
import type { Claim } from "#hostmap/types.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import type { ClaimSink, Source } from "../sources/types.ts";
import type { AddressBook } from "./address-book.ts";
import { claimWithAuto, type TargetedClaim, type WitnessedClaim } from "./auto-claims.ts";
import type { ExpectedClaim } from "./name-record.ts";
import type { DnsVerifier } from "./verifier.ts";

export type VerifyMode = "auto" | "warn" | "enforce";

interface VerifiedDeps {
  readonly verifier: DnsVerifier;
  readonly mode: VerifyMode;
  readonly book: Pick<AddressBook, "mapsAlways" | "warningOf" | "against">;
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
export function verifiedSource(source: Source, { verifier, mode, book }: VerifiedDeps): Source {
  const claimants = new Claimants(verifier);
  /** Claims by object, needed to report them again. Empty if claims pass unchanged. */
  const objects = new Map<string, readonly Claim[]>();
  const late = new Set<string>();
  let sink: ClaimSink = () => {};

  const withDecision = (claim: Claim): Claim => {
    const parsed = hasTarget(claim) ? parseHostname(claim.hostname) : undefined;
    if (!hasTarget(claim) || parsed === undefined || parsed.kind === "invalid") return claim;
    const decision = verifier.decisionOf(parsed.name, expectedClaim(claim, mode));
    const state = verifier.stateOf(parsed.name);
    return decidedClaim({ claim, decision, state, always: book.mapsAlways(claim.target), book }, mode);
  };
  const report = (object: string): void => sink(object, (objects.get(object) ?? []).map(withDecision));
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
      verifier.start((name) => {
        for (const object of mode === "warn" ? [] : claimants.of(name)) {
          const few = (objects.get(object)?.length ?? 0) <= FEW_CLAIMS;
          if (few) report(object);
          else {
            late.add(object);
            reporter.enqueue(COMBINE_MS);
          }
        }
      });
      source.start(
        (object, claims) => {
          claimants.follow(object, expectations(claims, mode));
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
    keep: (lineOf) => source.keep?.(lineOf),
    stop: async () => {
      verifier.stop();
      await Promise.all([reporter.stop(), source.stop()]);
    },
  };
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
  readonly #names = new Map<string, readonly string[]>();

  constructor(verifier: DnsVerifier) {
    this.#verifier = verifier;
  }

  of(name: string): Iterable<string> {
    return this.#byName.get(name)?.keys() ?? [];
  }

  follow(object: string, expected: ReadonlyMap<string, ExpectedClaim>): void {
    for (const name of this.#names.get(object) ?? []) {
      if (expected.has(name)) continue;
      this.#byName.get(name)?.delete(object);
      this.#update(name);
    }
    for (const [name, claim] of expected) {
      const claims = this.#byName.get(name) ?? new Map<string, ExpectedClaim>();
      this.#byName.set(name, claims.set(object, claim));
      this.#update(name);
    }
    if (expected.size === 0) this.#names.delete(object);
    else this.#names.set(object, [...expected.keys()]);
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

/** Names and wildcards with their expected claims. Skips invalid names and claims without a target. */
function expectations(claims: readonly Claim[], mode: VerifyMode): Map<string, ExpectedClaim> {
  const expected = new Map<string, ExpectedClaim>();
  for (const claim of claims) {
    const parsed = hasTarget(claim) ? parseHostname(claim.hostname) : undefined;
    if (!hasTarget(claim) || parsed === undefined || parsed.kind === "invalid") continue;
    expected.set(parsed.name, expectedClaim(claim, mode));
  }
  return expected;
}

/** With `auto`, only addresses of the target count: those of the object may belong to another controller. */
export function expectedClaim({ target, publicAddresses = [] }: TargetedClaim, mode: VerifyMode): ExpectedClaim {
  return { target, publicAddresses: mode === "auto" ? [] : publicAddresses };
}

export function hasTarget(claim: Claim): claim is TargetedClaim {
  return typeof claim.target === "string";
}
