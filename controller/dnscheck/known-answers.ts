import { isIP } from "node:net";
import { parseHostname } from "#hostmap/hostnames.ts";
import type { Claim, Reason } from "#hostmap/types.ts";
import type { Source } from "../sources/types.ts";
import { canonicalIp } from "../targets/service-view.ts";
import type { AddressBook } from "./address-book.ts";
import { type DnsDecision, decideByDns } from "./dns-decision.ts";
import { decidedClaim, expectedClaim, hasTarget, type VerifyMode } from "./verified-source.ts";
import { expectedAddresses, mismatchOf, type NameDecisions, overallDecision } from "./verifier.ts";

/** By name or wildcard: all addresses that DNS has for the name. */
export type DnsAnswers = ReadonlyMap<string, readonly string[]>;

interface KnownDeps {
  readonly answers: DnsAnswers;
  readonly book: AddressBook;
  readonly mode: VerifyMode;
}

const POLL_MS = 10;

/**
 * Decides on claims with DNS answers that are already known, such as those of a stored cluster. It looks up no names,
 * and waits for no further answers. It holds claims until everything is known that decides about them.
 */
export class KnownAnswers implements NameDecisions {
  readonly #deps: KnownDeps;
  readonly #decisions = new Map<string, DnsDecision[]>();

  constructor(deps: KnownDeps) {
    this.#deps = deps;
  }

  /** Wraps a source: its claims are decided on. */
  source(source: Source): Source {
    let timer: NodeJS.Timeout | undefined;
    return {
      ...source,
      start: (sink, onSynced) => {
        const held = new Map<string, readonly Claim[]>();
        let isKnown = false;
        const finish = () => {
          if (!this.#deps.book.synced) return;
          clearInterval(timer);
          isKnown = true;
          for (const [object, claims] of held) sink(object, this.#decide(claims));
          held.clear();
          onSynced();
        };
        source.start(
          (object, claims) => {
            if (isKnown) sink(object, this.#decide(claims));
            else held.set(object, claims);
          },
          () => {
            timer = setInterval(finish, POLL_MS);
            finish();
          },
        );
      },
      stop: async () => {
        clearInterval(timer);
        await source.stop();
      },
    };
  }

  answersOf(name: string): readonly string[] | undefined {
    return this.#deps.answers.get(name);
  }

  warningOf(name: string): Reason | undefined {
    return mismatchOf(overallDecision(this.#decisions.get(name) ?? []), this.#deps.mode);
  }

  hasPublicIpv6(name: string): boolean {
    const own = this.#deps.book.ownAddresses();
    return (this.answersOf(name) ?? []).some((address) => isIP(address) === 6 && !own.has(canonicalIp(address)));
  }

  *mismatches(): Iterable<readonly [name: string, reason: Reason]> {
    for (const name of this.#decisions.keys()) {
      const reason = this.warningOf(name);
      if (reason !== undefined) yield [name, reason];
    }
  }

  decisions(): Iterable<DnsDecision> {
    return this.#decisions.values().map(overallDecision);
  }

  #decide(claims: readonly Claim[]): Claim[] {
    const { mode, book } = this.#deps;
    return claims.map((claim) => {
      const parsed = hasTarget(claim) ? parseHostname(claim.hostname) : undefined;
      if (!hasTarget(claim) || parsed === undefined || parsed.kind === "invalid") return claim;
      const decision = this.#decisionOn(parsed.name, expectedClaim(claim, mode));
      const all = this.#decisions.get(parsed.name);
      if (all === undefined) this.#decisions.set(parsed.name, [decision]);
      else all.push(decision);
      const always = book.mapsAlways(claim.target);
      return decidedClaim({ claim, decision, state: "settled", always, book }, mode);
    });
  }

  #decisionOn(name: string, expected: ReturnType<typeof expectedClaim>): DnsDecision {
    const { book } = this.#deps;
    return decideByDns({
      name,
      answers: this.answersOf(name)?.map(canonicalIp),
      addressesOfTarget: expectedAddresses(expected, book),
      externalIPs: book.externalIPsOf(expected.target),
      targetOfAddress: (address) => book.targetAt(address),
      isOwnAddress: (address) => book.ownAddresses().has(address),
    });
  }
}
