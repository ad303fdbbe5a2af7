import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { publishedMapOf } from "../snapshot/map-format.ts";
import { type Injection, type PodHosts, planBakedInjection, planInjection } from "./inject.ts";
import { HOSTS_KEY, INJECTED_KEY, OWNED_KEY, REVISION_KEY } from "./metadata-keys.ts";
import { packOnePerAddress } from "./pack.ts";
import { createSelector } from "./select-hosts.ts";
import type { HostAlias } from "./types.ts";

const V4 = "198.51.100.9";
const V6 = "2001:db8::9";

function choose(entries: ReadonlyArray<readonly [string, readonly string[]]>, annotation?: string, cap = 500) {
  return createSelector(publishedMapOf("r", new Map(entries.map(([name, ips]) => [name, [...ips]]))), cap)(annotation);
}

/** The pod as it looks afterwards, which is what a second pass sees. */
function applied(pod: PodHosts, { userAliases, managed }: Injection): PodHosts {
  return {
    hostAliases: [...userAliases, ...managed.aliases],
    annotations: { ...pod.annotations, ...managed.annotations },
  };
}

const bare: PodHosts = { hostAliases: [], annotations: {} };

const host = fc.constantFrom(
  ...Array.from({ length: 60 }, (_, index) => `host-${index}.${"x".repeat(index)}.example.com`),
);
const ip = fc.constantFrom("198.51.100.8", V4, V6, "203.0.113.7");
const addresses = fc.constantFrom([V4], [V4, V6], [V6], ["198.51.100.8"]);
const mapEntries = fc.uniqueArray(fc.tuple(host, addresses), { selector: ([name]) => name });
const userAlias: fc.Arbitrary<HostAlias> = fc.record({ ip, hostnames: fc.array(host, { maxLength: 4 }) });
const userAliases = fc.array(userAlias, { maxLength: 6 });

test("the user's aliases come first, as they were and in order", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, (hostAliases, entries) => {
      const pod = { hostAliases, annotations: {} };
      const after = applied(pod, planInjection(pod, choose(entries)));
      assert.deepEqual(after.hostAliases.slice(0, hostAliases.length), hostAliases);
    }),
  );
});

test("every chosen name is mapped: as the map says, or where the user has it as the user says", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, (hostAliases, entries) => {
      const { managed } = planInjection({ hostAliases, annotations: {} }, choose(entries));
      for (const [name, ips] of entries) {
        const theirs = hostAliases.some((alias) => alias.hostnames.includes(name));
        const ours = managed.aliases.filter((alias) => alias.hostnames.includes(name)).map((alias) => alias.ip);
        assert.deepEqual(ours.sort(), theirs ? [] : [...ips].sort());
      }
    }),
  );
});

test("injecting twice, also with an older map in between, equals injecting once with the newest", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, mapEntries, (hostAliases, older, newest) => {
      const pod = { hostAliases, annotations: { [HOSTS_KEY]: "*" } };
      const once = applied(pod, planInjection(pod, choose(newest)));
      const between = applied(pod, planInjection(pod, choose(older)));
      assert.deepEqual(applied(between, planInjection(between, choose(newest))), once);
      assert.deepEqual(applied(once, planInjection(once, choose(newest))), once);
    }),
  );
});

/** No address of the map's: an alias equal to all of ours cannot be told from it. */
const otherAliases = fc.array(
  userAlias.map((alias) => ({ ...alias, ip: "203.0.113.8" })),
  { maxLength: 6 },
);

test("another webhook in between, which adds aliases before or behind ours, changes neither theirs nor ours", () => {
  fc.assert(
    fc.property(
      userAliases,
      mapEntries,
      mapEntries,
      otherAliases,
      otherAliases,
      (mine, older, newest, before, behind) => {
        const pod = { hostAliases: mine, annotations: {} };
        const first = applied(pod, planInjection(pod, choose(older)));
        const seen = { ...first, hostAliases: [...before, ...first.hostAliases, ...behind] };
        const all = { hostAliases: [...before, ...mine, ...behind], annotations: {} };
        assert.deepEqual(planInjection(seen, choose(newest)), planInjection(all, choose(newest)));
      },
    ),
  );
});

test("a baked-in block of an older map is replaced by the webhook's", () => {
  fc.assert(
    fc.property(mapEntries, mapEntries, (older, newest) => {
      const baked = planBakedInjection(bare, choose(older), true);
      assert.ok("managed" in baked);
      const seen = applied(bare, baked);
      assert.deepEqual(
        applied(seen, planInjection(seen, choose(newest))),
        applied(bare, planInjection(bare, choose(newest))),
      );
    }),
  );
});

const forgedOwned = fc.oneof(
  fc.string({ unit: "binary" }),
  fc
    .tuple(ip, fc.nat(9), fc.stringMatching(/^[0-9a-f]{12}$/))
    .map(([addr, count, hex]) => `${addr} x${count} (${hex})`),
  fc.constantFrom(
    "none",
    "",
    `${V4} x1`,
    `${V4} x99999999999 (0123456789ab)`,
    `${V4} x0 (0123456789ab)`,
    "x1 (0123456789ab)",
  ),
);

test("a forged annotation removes nothing, and is overwritten", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, forgedOwned, (hostAliases, entries, owned) => {
      const honest = { hostAliases, annotations: {} };
      const forged = { hostAliases, annotations: { [OWNED_KEY]: owned, [REVISION_KEY]: "x", [INJECTED_KEY]: owned } };
      assert.deepEqual(
        applied(forged, planInjection(forged, choose(entries))),
        applied(honest, planInjection(honest, choose(entries))),
      );
    }),
  );
});

test("the annotation of another pod, or of aliases that were edited since, removes nothing", () => {
  const entries = [["a.example.com", [V4]] as const, ["b.example.com", [V4]] as const];
  const { annotations } = planInjection(bare, choose(entries)).managed;
  const edited = [{ ip: V4, hostnames: ["a.example.com", "mine.example.com"] }];
  assert.deepEqual(planInjection({ hostAliases: edited, annotations }, choose(entries)).userAliases, edited);
});

test("a block of our size and address among thousands of equal aliases is searched for only so long", () => {
  const hostAliases = Array.from({ length: 20_000 }, () => ({ ip: V4, hostnames: ["a.example.com"] }));
  const annotations = { [OWNED_KEY]: `${V4} x10000 (0123456789ab)` };
  const before = process.cpuUsage().user;
  assert.equal(planInjection({ hostAliases, annotations }, choose([])).userAliases.length, 20_000);
  // 10,000 windows of 10,000 aliases would take a minute.
  assert.ok(process.cpuUsage().user - before < 5_000_000);
});

test("owned tells IPs and counts, injected what people look for", () => {
  const entries = Array.from({ length: 30 }, (_, index) => [`host-${index + 10}.shop.example.com`, [V4, V6]] as const);
  const { annotations } = planInjection(bare, choose(entries)).managed;
  assert.match(annotations[OWNED_KEY] ?? "", /^198\.51\.100\.9 x2, 2001:db8::9 x2 \([0-9a-f]{12}\)$/);
  assert.equal(
    annotations[INJECTED_KEY],
    "198.51.100.9 host-10.shop.example.com host-11.shop.example.com host-12.shop.example.com (+27 more); " +
      "2001:db8::9 host-10.shop.example.com host-11.shop.example.com host-12.shop.example.com (+27 more)",
  );
});

test("with nothing to add the annotations say so, and a later pass is no different", () => {
  const plan = planInjection(bare, choose([]));
  assert.deepEqual(plan.managed.aliases, []);
  assert.equal(plan.managed.annotations[INJECTED_KEY], "none");
  assert.equal(plan.managed.annotations[OWNED_KEY], "none");
  const after = applied(bare, plan);
  assert.deepEqual(applied(after, planInjection(after, choose([]))), after);
});

test("injected stays short whatever the names and addresses, and names the annotation past the cap", () => {
  const entries = Array.from(
    { length: 500 },
    (_, index) => [`${index}.${"x".repeat(240)}.com`, [`198.51.100.${index % 250}`]] as const,
  );
  const { annotations } = planInjection(bare, choose(entries, undefined, 400)).managed;
  const text = annotations[INJECTED_KEY] ?? "";
  assert.ok(text.length < 2_500, String(text.length));
  assert.match(text, /\+244 more addresses \[only the first 400 of 500 names: choose with switchback\.dev\/hosts\]$/);
});

test("the revision is that of the choice, whether or not the user maps some of the names", () => {
  const chosen = choose([
    ["a.example.com", [V4]],
    ["b.example.com", [V4]],
  ]);
  const pod = { hostAliases: [{ ip: "203.0.113.7", hostnames: ["A.example.com"] }], annotations: {} };
  const { managed } = planInjection(pod, chosen);
  assert.deepEqual(managed.aliases, [{ ip: V4, hostnames: ["b.example.com"] }]);
  assert.equal(managed.annotations[REVISION_KEY], chosen.revision);
});

test("baked in, an address has one alias; too many names are refused unless a long line is asked for", () => {
  const entries = Array.from({ length: 30 }, (_, index) => [`host-${index}.shop.example.com`, [V4]] as const);
  const refused = planBakedInjection(bare, choose(entries), false);
  assert.equal("code" in refused && refused.code, "line-too-long");
  const long = planBakedInjection(bare, choose(entries), true);
  assert.ok("managed" in long);
  assert.deepEqual(long.managed.aliases, packOnePerAddress([...entries].sort(([a], [b]) => (a < b ? -1 : 1))));
});

test("baked in, an address that the user has an alias for is refused: hostAliases is a map keyed by ip to apply", () => {
  const pod = { hostAliases: [{ ip: V4, hostnames: ["mine.example.com"] }], annotations: {} };
  const refused = planBakedInjection(pod, choose([["a.example.com", [V4]]]), false);
  assert.equal("code" in refused && refused.code, "address-has-alias");
});
