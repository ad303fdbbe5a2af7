import assert from "node:assert/strict";
import { test } from "node:test";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { aliasesText, kubeletText } from "#test/fakes/kubelet-files.ts";
import { applyLive } from "./live-hosts.ts";
import { liveAliases } from "./live-hosts-plan.ts";
import { createLivePlans } from "./live-plans.ts";

const ALIASES: readonly HostAlias[] = [{ ip: "198.51.100.9", hostnames: ["a.example.com"] }];

/** Plans that count how often a file is planned, and how often its text is computed. */
function start(...names: string[]) {
  const map = publishedMapOf("r1", new Map(["a.example.com", ...names].map((name) => [name, ["198.51.100.9"]])));
  const select = createSelector(map, 500);
  const counts = { planned: 0, computed: 0 };
  const counted = (real: SelectedHosts): SelectedHosts => ({
    ...real,
    has: (name) => {
      if (name === "marker") counts.computed += 1;
      return real.has(name);
    },
    byAddress: () => {
      counts.planned += 1;
      return real.byAddress();
    },
  });
  const plans = createLivePlans();
  /** Applies the map to a file with these foreign lines after the aliases. Compares with the result without a cache. */
  const apply = (foreign: string, { own = "10.32.0.7\tapi-0", aliases = ALIASES, hosts = "*" } = {}) => {
    const real = select(hosts);
    const text = kubeletText(`${aliasesText(ALIASES)}10.0.0.1 marker # \xe9\n${foreign}`, own);
    const result = plans.apply(Buffer.from(text, "latin1"), aliases, counted(real)).toString("latin1");
    assert.equal(result, applyLive(text, liveAliases(aliases), real));
  };
  return { plans, counts, apply };
}

test("pods that differ only in their own line share a text", () => {
  const { counts, apply } = start("b.example.com");
  for (const own of ["10.32.0.7\tapi-0", "10.32.0.123\tapi-1", "10.32.0.7\tapi-0"]) apply("", { own });
  assert.deepEqual(counts, { planned: 1, computed: 1 });
});

test("different texts share a plan if they have the same aliases and the same taken names", () => {
  const { counts, apply } = start("b.example.com", "c.example.com");
  for (const foreign of ["", "10.0.0.1 x\n", "10.0.0.2 y\n"]) apply(foreign);
  assert.deepEqual(counts, { planned: 1, computed: 3 });
  apply("10.0.0.1 b.example.com\n");
  apply("10.0.0.1 c.example.com\n");
  assert.equal(counts.planned, 3);
});

test("equal texts of pods with other aliases, or with other selected names, are computed separately", () => {
  const { counts, apply } = start("b.example.com");
  const [none, other] = [[], [{ ip: "10.0.0.1", hostnames: ["marker"] }]];
  for (const round of [1, 2]) {
    for (const options of [{}, { hosts: "a.example.com" }, { aliases: none }, { aliases: other }]) apply("", options);
    assert.deepEqual([round, counts], [round, { planned: 4, computed: 4 }]);
  }
});

test("taken names `a b.c` and `ab.c` have different plans", () => {
  const { counts, apply } = start("a", "b.c", "ab.c");
  apply("10.0.0.1 a b.c\n");
  apply("10.0.0.1 ab.c\n");
  assert.equal(counts.planned, 2);
});

test("the four texts that were computed last are kept", () => {
  const { counts, apply } = start();
  const texts = [1, 2, 3, 4, 5].map((index) => `10.0.0.${index} x\n`);
  for (const text of texts) apply(text);
  for (const text of texts.slice(1)) apply(text);
  assert.equal(counts.computed, 5);
  apply("10.0.0.1 x\n");
  assert.equal(counts.computed, 6);
});

test("256 plans are kept; one more clears them all", () => {
  const names = Array.from({ length: 257 }, (_, index) => `n${index}.example.com`);
  const { counts, apply } = start(...names);
  const [last = "", ...others] = names.map((name) => `10.0.0.1 ${name}\n`);
  for (const text of [...others, ...others]) apply(text);
  assert.equal(counts.planned, 256);
  apply(last);
  apply(last);
  assert.equal(counts.planned, 257);
  apply(others[0] ?? "");
  assert.equal(counts.planned, 258);
});

test("with a new map, only the parsed aliases are kept", () => {
  const { plans, counts, apply } = start();
  const parsed = plans.aliases(ALIASES);
  assert.deepEqual(parsed, liveAliases(ALIASES));
  apply("");
  plans.clear();
  apply("");
  assert.deepEqual(counts, { planned: 2, computed: 2 });
  assert.equal(plans.aliases(ALIASES), parsed);
});
