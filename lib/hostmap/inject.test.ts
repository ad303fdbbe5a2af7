import assert from "node:assert/strict";
import { test } from "node:test";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { anyText, fc } from "#test/property.ts";
import { type Injection, planBakedInjection, planInjection } from "./inject.ts";
import { HOSTS_KEY, INJECTED_KEY, OWNED_KEY, REVISION_KEY } from "./metadata-keys.ts";
import { packOnePerAddress } from "./pack.ts";
import { createSelector, type SelectedHosts } from "./pod-selection.ts";
import type { HostAlias } from "./types.ts";

const V4 = "198.51.100.9";
const V6 = "2001:db8::9";

function select(entries: ReadonlyArray<readonly [string, readonly string[]]>, annotation?: string, cap = 500) {
  return createSelector(publishedMapOf("r", new Map(entries.map(([name, ips]) => [name, [...ips]]))), cap)(annotation);
}

interface Pod {
  readonly hostAliases: readonly HostAlias[];
  readonly annotations: Readonly<Record<string, string>>;
}

function planFor({ hostAliases, annotations }: Pod, selected: SelectedHosts): Injection {
  return planInjection(hostAliases, annotations, selected);
}

/** The pod after the injection, as the input of a second pass. */
function applied(pod: Pod, { userAliases, managed }: Injection): Pod {
  return {
    hostAliases: [...userAliases, ...managed.aliases],
    annotations: { ...pod.annotations, ...managed.annotations },
  };
}

const bare: Pod = { hostAliases: [], annotations: {} };

const host = fc.constantFrom(
  ...Array.from({ length: 60 }, (_, index) => `host-${index}.${"x".repeat(index)}.example.com`),
);
const ip = fc.constantFrom("198.51.100.8", V4, V6, "203.0.113.7");
const addresses = fc.constantFrom([V4], [V4, V6], [V6], ["198.51.100.8"]);
const mapEntries = fc.uniqueArray(fc.tuple(host, addresses), { selector: ([name]) => name });
const userAlias: fc.Arbitrary<HostAlias> = fc.record({ ip, hostnames: fc.array(host, { maxLength: 4 }) });
const userAliases = fc.array(userAlias, { maxLength: 6 });

test("the user's aliases come first, unchanged and in order", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, (hostAliases, entries) => {
      const pod = { hostAliases, annotations: {} };
      const after = applied(pod, planFor(pod, select(entries)));
      assert.deepEqual(after.hostAliases.slice(0, hostAliases.length), hostAliases);
    }),
  );
});

test("every selected name is mapped, either as in the map or as in the user's aliases", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, (hostAliases, entries) => {
      const { managed } = planFor({ hostAliases, annotations: {} }, select(entries));
      for (const [name, ips] of entries) {
        const userHasName = hostAliases.some((alias) => alias.hostnames.includes(name));
        const managedIps = managed.aliases.filter((alias) => alias.hostnames.includes(name)).map((alias) => alias.ip);
        assert.deepEqual(managedIps.sort(), userHasName ? [] : [...ips].sort());
      }
    }),
  );
});

test("repeated injection equals one injection with the newest map, even after an injection with an older map", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, mapEntries, (hostAliases, older, newest) => {
      const pod = { hostAliases, annotations: { [HOSTS_KEY]: "*" } };
      const once = applied(pod, planFor(pod, select(newest)));
      const between = applied(pod, planFor(pod, select(older)));
      assert.deepEqual(applied(between, planFor(between, select(newest))), once);
      assert.deepEqual(applied(once, planFor(once, select(newest))), once);
    }),
  );
});

/**
 * These aliases never have an address of the map: an alias that equals a managed one could not be distinguished from
 * it.
 */
const otherAliases = fc.array(
  userAlias.map((alias) => ({ ...alias, ip: "203.0.113.8" })),
  { maxLength: 6 },
);

test("another webhook that adds aliases before or after the managed ones changes neither kind", () => {
  fc.assert(
    fc.property(
      userAliases,
      mapEntries,
      mapEntries,
      otherAliases,
      otherAliases,
      (mine, older, newest, before, behind) => {
        const pod = { hostAliases: mine, annotations: {} };
        const first = applied(pod, planFor(pod, select(older)));
        const seen = { ...first, hostAliases: [...before, ...first.hostAliases, ...behind] };
        const all = { hostAliases: [...before, ...mine, ...behind], annotations: {} };
        assert.deepEqual(planFor(seen, select(newest)), planFor(all, select(newest)));
      },
    ),
  );
});

test("the webhook replaces baked-in aliases of an older map", () => {
  fc.assert(
    fc.property(mapEntries, mapEntries, (older, newest) => {
      const baked = planBakedInjection([], {}, select(older));
      assert.ok("managed" in baked);
      const seen = applied(bare, baked);
      assert.deepEqual(applied(seen, planFor(seen, select(newest))), applied(bare, planFor(bare, select(newest))));
    }),
  );
});

const forgedOwned = fc.oneof(
  anyText(),
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

test("a forged annotation removes no alias, and is overwritten", () => {
  fc.assert(
    fc.property(userAliases, mapEntries, forgedOwned, (hostAliases, entries, owned) => {
      const honest = { hostAliases, annotations: {} };
      const forged = { hostAliases, annotations: { [OWNED_KEY]: owned, [REVISION_KEY]: "x", [INJECTED_KEY]: owned } };
      assert.deepEqual(
        applied(forged, planFor(forged, select(entries))),
        applied(honest, planFor(honest, select(entries))),
      );
    }),
  );
});

test("the search for managed aliases among thousands of equal ones is bounded", () => {
  const hostAliases = Array.from({ length: 20_000 }, () => ({ ip: V4, hostnames: ["a.example.com"] }));
  const annotations = { [OWNED_KEY]: `${V4} x10000 (0123456789ab)` };
  const before = process.cpuUsage().user;
  assert.equal(planFor({ hostAliases, annotations }, select([])).userAliases.length, 20_000);
  // Without a limit, 10,000 windows of 10,000 aliases would take a minute.
  assert.ok(process.cpuUsage().user - before < 5_000_000);
});

test("the annotation owned has an IP and a count, and injected has a readable summary", () => {
  const entries = Array.from({ length: 30 }, (_, index) => [`host-${index + 10}.shop.example.com`, [V4, V6]] as const);
  const { annotations } = planFor(bare, select(entries)).managed;
  assert.match(annotations[OWNED_KEY] ?? "", /^198\.51\.100\.9 x4 \([0-9a-f]{12}\)$/);
  assert.equal(
    annotations[INJECTED_KEY],
    "198.51.100.9 host-10.shop.example.com host-11.shop.example.com host-12.shop.example.com (+27 more); " +
      "2001:db8::9 host-10.shop.example.com host-11.shop.example.com host-12.shop.example.com (+27 more)",
  );
});

test("if there is nothing to add, the annotations say so, and a later pass gives the same result", () => {
  const plan = planFor(bare, select([]));
  assert.deepEqual(plan.managed.aliases, []);
  assert.equal(plan.managed.annotations[INJECTED_KEY], "none");
  assert.equal(plan.managed.annotations[OWNED_KEY], "none");
  const after = applied(bare, plan);
  assert.deepEqual(applied(after, planFor(after, select([]))), after);
});

test("the annotation injected stays short for any names and addresses, and names the annotation above the cap", () => {
  const entries = Array.from(
    { length: 500 },
    (_, index) => [`${index}.${"x".repeat(240)}.com`, [`198.51.100.${index % 250}`]] as const,
  );
  const { annotations } = planFor(bare, select(entries, undefined, 400)).managed;
  const text = annotations[INJECTED_KEY] ?? "";
  assert.ok(text.length < 2_500, String(text.length));
  assert.match(text, /\+244 more addresses \[only the first 400 of 500 names: choose with switchback\.dev\/hosts\]$/);
});

test("the revision is that of the selection, even if the user maps some of the names", () => {
  const selected = select([
    ["a.example.com", [V4]],
    ["b.example.com", [V4]],
  ]);
  const pod = { hostAliases: [{ ip: "203.0.113.7", hostnames: ["A.example.com"] }], annotations: {} };
  const { managed } = planFor(pod, selected);
  assert.deepEqual(managed.aliases, [{ ip: V4, hostnames: ["b.example.com"] }]);
  assert.equal(managed.annotations[REVISION_KEY], selected.revision);
});

test("a manifest has one alias per address", () => {
  const entries = Array.from({ length: 30 }, (_, index) => [`host-${index}.shop.example.com`, [V4]] as const);
  const plan = planBakedInjection([], {}, select(entries));
  assert.ok("managed" in plan);
  assert.deepEqual(plan.managed.aliases, packOnePerAddress([...entries].sort(([a], [b]) => (a < b ? -1 : 1))));
});

test("a manifest is refused if the user has an alias for an address, because apply merges hostAliases by ip", () => {
  const hostAliases = [{ ip: V4, hostnames: ["mine.example.com"] }];
  const refused = planBakedInjection(hostAliases, {}, select([["a.example.com", [V4]]]));
  assert.equal("code" in refused && refused.code, "address-has-alias");
});

for (const ips of [[V4], [V4, V6]]) {
  test(`for 500 names at ${ips.length} addresses a pod grows only by the names, not by annotations`, (t) => {
    const entries = Array.from({ length: 500 }, (_, index) => [`host-${index}.shop.example.com`, ips] as const);
    const { aliases, annotations } = planFor(bare, select(entries)).managed;
    const bytes = (value: unknown) => JSON.stringify(value).length;
    const names = ips.length * entries.reduce((sum, [name]) => sum + bytes(name) + 1, 0);
    t.diagnostic(`${bytes(aliases)} bytes of aliases, ${names} of them names; ${bytes(annotations)} of annotations`);
    assert.ok(bytes(aliases) < 1.1 * names, "the rest of a line is little");
    assert.ok(bytes(annotations) < 250 + 120 * (ips.length - 1));
  });
}
