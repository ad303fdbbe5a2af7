import { parseHostname } from "#hostmap/hostnames.ts";
import type { Claim } from "#hostmap/types.ts";
import type { Source } from "../sources/types.ts";
import type { DnsVerifier } from "./verifier.ts";

/** The addresses that all claims of a name expect. */
interface Following {
  readonly objects: Map<string, readonly string[]>;
}

/**
 * Passes names and their expected addresses to a verifier. With `enforce`, a claim whose name does not resolve to
 * them (yet) gets the reason instead of its target.
 */
export function verifiedSource(source: Source, verifier: DnsVerifier, enforce: boolean): Source {
  const names = new Map<string, Following>();
  /** By object, with `enforce` only: only these claims are reported again. */
  const objects = new Map<string, readonly Claim[]>();
  const followed = new Map<string, readonly string[]>();

  const follow = (object: string, claims: readonly Claim[]): void => {
    const expected = expectations(claims);
    for (const name of followed.get(object) ?? []) {
      if (expected.has(name)) continue;
      const following = names.get(name);
      following?.objects.delete(object);
      update(name, following);
    }
    for (const [name, addresses] of expected) {
      const following = names.get(name) ?? { objects: new Map() };
      following.objects.set(object, addresses);
      names.set(name, following);
      update(name, following);
    }
    if (expected.size === 0) followed.delete(object);
    else followed.set(object, [...expected.keys()]);
  };
  const update = (name: string, following: Following | undefined): void => {
    if (following === undefined || following.objects.size === 0) {
      names.delete(name);
      verifier.forget(name);
      return;
    }
    const [first = [], ...more] = following.objects.values();
    verifier.expect(name, more.length === 0 ? first : [...new Set([...first, ...more.flat()])]);
  };
  const withDecision = (claim: Claim): Claim => {
    if (typeof claim.target !== "string") return claim;
    const parsed = parseHostname(claim.hostname);
    if (parsed.kind === "invalid") return claim;
    const decision = verifier.decisionOf(parsed.name, claim.publicAddresses ?? []);
    if (decision === "verified") return claim;
    const text = "the cluster's DNS has not yet been seen to lead it to its load balancer (policy.verifyDns: enforce)";
    return { ...claim, target: decision === "unknown" ? { code: "dns-not-verified", text } : decision };
  };

  return {
    start(sink, onSynced) {
      verifier.start((name) => {
        if (!enforce) return;
        for (const object of names.get(name)?.objects.keys() ?? []) {
          sink(object, (objects.get(object) ?? []).map(withDecision));
        }
      });
      source.start((object, claims) => {
        follow(object, claims);
        if (!enforce) return sink(object, claims);
        if (claims.length === 0) objects.delete(object);
        else objects.set(object, claims);
        sink(object, claims.map(withDecision));
      }, onSynced);
    },
    state: () => source.state(),
    stop: async () => {
      verifier.stop();
      await source.stop();
    },
  };
}

/** Names and wildcards with their expected addresses. Invalid names and claims without a target are not looked up. */
function expectations(claims: readonly Claim[]): Map<string, readonly string[]> {
  const expected = new Map<string, readonly string[]>();
  for (const { hostname, target, publicAddresses = [] } of claims) {
    const parsed = typeof target === "string" ? parseHostname(hostname) : undefined;
    if (parsed !== undefined && parsed.kind !== "invalid") expected.set(parsed.name, publicAddresses);
  }
  return expected;
}
