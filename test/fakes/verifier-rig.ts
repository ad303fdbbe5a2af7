import { isIP } from "node:net";
import type { TestContext } from "node:test";
import type { DnsLookup } from "#controller/dnscheck/lookup.ts";
import { DnsVerifier } from "#controller/dnscheck/verifier.ts";
import { fakeAddressBook, NO_TOOLS } from "./address-book.ts";
import { LineLog } from "./clock.ts";
import { turns } from "./stopped-time.ts";

interface Setting {
  readonly mode?: "auto" | "warn" | "enforce";
  /** The known addresses. A test may change them later. */
  readonly addresses?: Parameters<typeof fakeAddressBook>[0];
  /** The namespace that claims a name. */
  readonly claimantOf?: (name: string) => string;
}

/** A verifier whose DNS and clock the test controls. */
export function verifierRig(t: TestContext, { mode = "warn", addresses = {}, claimantOf = () => "" }: Setting = {}) {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const records = new Map<string, readonly string[] | Error>();
  const asked: string[] = [];
  const askedForIpv6: string[] = [];
  const reported: string[] = [];
  const log = new LineLog();
  const state = { now: 1_000, ttl: 300, open: 0, most: 0, slow: false };
  const lookup: DnsLookup = async (name, family) => {
    const ofFamily = records.get(`${name}/${family}`);
    if (ofFamily instanceof Error) throw ofFamily;
    const all = records.get(name) ?? [];
    const found = all instanceof Error ? all : all.filter((address) => isIP(address) === family);
    if (family === 6) askedForIpv6.push(name);
    // The verifier also asks for the other family. `asked` gets such a query only if it has an answer.
    if (family === 6 && (found instanceof Error || found.length === 0)) return { addresses: [], ttl: state.ttl };
    asked.push(`${name}/${family}`);
    state.open += 1;
    state.most = Math.max(state.most, state.open);
    await new Promise((resolve) => setImmediate(resolve));
    while (state.slow) await new Promise((resolve) => setImmediate(resolve));
    state.open -= 1;
    if (found instanceof Error) throw found;
    return { addresses: found.slice(0, 64), omitted: Math.max(0, found.length - 64), ttl: state.ttl };
  };
  const verifier = new DnsVerifier({
    lookup,
    book: fakeAddressBook(addresses),
    tools: NO_TOOLS,
    mode,
    now: () => state.now,
    log,
  });
  verifier.start(
    (name) => reported.push(name),
    (name) => [claimantOf(name)],
  );
  t.after(() => {
    state.slow = false;
    verifier.stop();
  });
  const expect = (name: string, publicAddresses: readonly string[]) =>
    verifier.expect(name, [{ target: "edge", publicAddresses }]);
  const decisionOf = (name: string, publicAddresses: readonly string[]) =>
    verifier.decisionOf(name, { target: "edge", publicAddresses });
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      state.now += 100;
      t.mock.timers.tick(100);
      await turns(4);
    }
  };
  const code = (name: string) => {
    const decision = verifier.decisionOf(name);
    return typeof decision === "string" ? decision : decision.code;
  };
  return { verifier, expect, decisionOf, records, asked, askedForIpv6, reported, state, log, pass, code };
}
