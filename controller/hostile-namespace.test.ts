import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { Plan } from "#hostmap/plan.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { parseLines } from "#lib/documents/map-format.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { claimOf } from "#test/arbitraries.ts";
import { LeaderMap } from "./leader-map.ts";

// One Ingress claims 500 hosts whose names sort before all others, and a pod selects all names.

const TARGETS = [{ name: "edge", clusterIPs: ["198.51.100.9", "2001:db8::9"] }];
const config = parseConfig({});
const { maxNames } = config.inject;

/** A controller that publishes a text. `restart` replaces it with a new one. */
async function controllers(store = { text: "" }, { quota = config.policy.maxNamesPerNamespace } = {}) {
  const objects = new Map<string, ReturnType<typeof claimOf>[]>();
  let now = 0;
  let plan: Plan;
  let map: LeaderMap;
  const restart = async () => {
    plan = new Plan(createClaimPolicy(config.policy, "cluster.local"), quota);
    map = new LeaderMap(config.map, plan, await parseLines(store.text), TARGETS);
    for (const [object, claims] of objects) plan.set(object, claims);
  };
  await restart();
  const publish = async () => {
    now += 1_000;
    map.update(plan.takeChanges(), TARGETS, now, true);
    map.settle(now);
    store.text = (await map.render()).data?.hosts ?? "";
  };
  return {
    restart,
    async claim(object: string, names: readonly string[], created = "2026-01-01T00:00:00Z") {
      const claims = names.map((name) => claimOf(name, object, { target: "edge", created }));
      objects.set(object, claims);
      plan.set(object, claims);
      await publish();
    },
    publish,
    /** What a pod gets, computed like every reader of the map does. */
    selected(annotation?: string) {
      return createSelector(publishedMapOf("r", parseHosts(store.text)), maxNames)(annotation);
    },
    text: () => store.text,
  };
}

const hosts = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(3, "0")}.example.com`);
const ATTACK = hosts("0", 500);

/** Claims 400 names, ten for each of 40 teams. */
async function teams(here: Awaited<ReturnType<typeof controllers>>): Promise<readonly string[]> {
  const names = hosts("team-", 400);
  for (let team = 0; team < 40; team += 1) await here.claim(`team-${team}/web`, names.slice(team * 10, team * 10 + 10));
  return names;
}

for (const annotation of [undefined, "*", "*.example.com"]) {
  test(`later names do not displace earlier ones, with the annotation ${annotation}`, async () => {
    const here = await controllers();
    const names = await teams(here);
    await here.claim("attack/web", ATTACK, "2020-01-01T00:00:00Z");
    const { names: selected, total } = here.selected(annotation);
    assert.deepEqual(
      names.filter((name) => !selected.includes(name)),
      [],
    );
    assert.deepEqual([selected.length, total], [500, 650]);
    assert.deepEqual(selected, [...selected].sort(), "the order in the hosts file is that of names");
    const { revision } = here.selected(annotation);
    await here.restart();
    await here.publish();
    assert.deepEqual(here.selected(annotation).revision, revision, "a new leader knows who came first");
    await here.claim("late/web", hosts("00-late-", 10));
    assert.deepEqual(here.selected(annotation).names, selected);
  });
}

test("a namespace that comes first takes at most half of a pod's names", async () => {
  const here = await controllers();
  await here.claim("attack/web", ATTACK);
  const names = (await teams(here)).slice(0, 250);
  const { names: selected } = here.selected();
  assert.deepEqual(
    selected.filter((name) => !ATTACK.includes(name)),
    names,
  );
});
