import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NOTHING_ADDED } from "#doctor/added-checks.ts";
import { examine } from "#doctor/checks.ts";
import { known } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import type { FindingStatus } from "#doctor/findings.ts";
import { reportDocument } from "#doctor/report.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { CLUSTERS, dumpOf, factsOf } from "#test/fakes/cluster-table.ts";
import { install, status } from "#test/fakes/doctor-changes.ts";
import { HEALTHY } from "#test/fakes/doctor-facts.ts";
import { fullStatus, NAME } from "#test/fakes/full-status.ts";
import { StatusChanges } from "../server/changes.ts";
import { readComponents } from "../server/cluster.ts";
import type { Components, FeedMessage } from "../server/messages.ts";
import { type Level, levelOf, noticesOf } from "./notices.ts";
import { PageState } from "./state.ts";

// The first page and the doctor agree about a cluster. The page is not green while the doctor does not know
// something.

const LEVELS: Readonly<Record<FindingStatus, Level>> = { ok: "good", unknown: "warn", warning: "warn", broken: "bad" };

/** The level of the first page after these messages. */
function levelAfter(messages: readonly FeedMessage[]): Level {
  const state = new PageState();
  for (const message of [{ type: "begin", place: "here", canExamine: true } as const, ...messages]) state.take(message);
  return levelOf(state.view, noticesOf(state.view, Date.now()));
}

function examined(facts: ClusterFacts): FeedMessage {
  return { type: "examined", at: 1, report: known(reportDocument(examine(facts))) };
}

describe("the first page of a cluster without Switchback", () => {
  const files = useFiles();
  let broken = 0;

  for (const { file, expected, objects } of CLUSTERS) {
    it(`${file}: it agrees with the doctor, with a probe and without one`, async () => {
      const dump = await dumpOf(objects, files);
      const facts = await factsOf(dump, expected);
      const components = await readComponents(dump.client, dump.head.namespace, NOTHING_ADDED, undefined);
      const read: FeedMessage[] = [
        { type: "components", components },
        { type: "unknown", at: 1, text: "there is no controller" },
      ];
      const verdict = reportDocument(examine(facts)).status;
      assert.equal(levelAfter([...read, examined(facts)]), LEVELS[verdict]);
      const unprobed = { ...facts, probe: undefined };
      assert.equal(levelAfter([...read, examined(unprobed)]), LEVELS[reportDocument(examine(unprobed)).status]);
      if (verdict === "broken") broken++;
    });
  }

  it("at least 20 of the clusters are broken", () => assert.ok(broken >= 20, String(broken)));
});

/** The messages that the page gets from an installation with these facts. */
function pageOf(facts: ClusterFacts): FeedMessage[] {
  const { deployments, status: read } = facts.install;
  const components: Components = { deployments, agents: known([]), upstreams: facts.endpoints, publishers: known([]) };
  const { leader, synced, hold, warnings } = read.known ? read.value : assert.fail();
  const held = hold && { since: 0, ...hold };
  const full = fullStatus({ leader, synced, hold: held, warnings: [...warnings], names: [NAME] });
  return [{ type: "components", components }, ...new StatusChanges().take(full, 1), examined(facts)];
}

describe("the first page of an installation", () => {
  it("is green for a healthy installation, with a probe and without one", () => {
    assert.equal(levelAfter(pageOf(HEALTHY)), "good");
    assert.equal(levelAfter(pageOf({ ...HEALTHY, probe: undefined })), "good");
  });

  const none = { deployments: known([]) };
  const down = HEALTHY.install.deployments.known ? HEALTHY.install.deployments.value : [];
  for (const [what, change] of [
    ["its Deployments are gone", install(none)],
    ["no proxy runs", install({ deployments: known(down.map((one) => ({ ...one, ready: 0 }))) })],
    ["one pod is not ready", install({ deployments: known(down.map((one) => ({ ...one, ready: 1 }))) })],
    ["nobody leads", status({ leader: false })],
    ["a removal is held", status({ hold: { names: 1, of: 2, until: 9 } })],
    ["the webhook is gone", { admission: { ...HEALTHY.admission, configuration: known(undefined) } }],
    [
      "pods are not injected",
      { admission: { ...HEALTHY.admission, dryRun: known({ outcome: "untouched" } as const) } },
    ],
    [
      "the ingress controller has no pods",
      { endpoints: known([{ namespace: "ingress-nginx", name: "ingress-nginx-controller", ready: 0 }]) },
    ],
  ] as const satisfies readonly (readonly [string, Partial<ClusterFacts>])[]) {
    it(`is no better than the doctor's findings: ${what}`, () => {
      const facts = { ...HEALTHY, ...change };
      const verdict = reportDocument(examine(facts)).status;
      assert.notEqual(verdict, "ok");
      const level = levelAfter(pageOf(facts));
      // On the page, a held removal is urgent, because names are about to go.
      assert.equal(level, what === "a removal is held" ? "bad" : LEVELS[verdict]);
    });
  }
});
