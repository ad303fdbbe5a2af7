import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { applyPatch } from "rfc6902";
import { parse } from "yaml";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { createInjectionCache } from "#webhook/injection-cache.ts";
import { BY_HOSTS, type Decision, decideInjection, type OptIn, type PodDns } from "#webhook/injection-decision.ts";

// Input: a folder's pods.yaml. By name, it has a pod and how the pod arrives. Expected: decisions.json beside it.
//   To update it: npx node --test --test-update-snapshots, with the test file that names the folder.

const UPDATES = process.execArgv.includes("--test-update-snapshots");

export interface GoldenCase {
  readonly optIn: OptIn;
  readonly operation?: string;
  readonly maxNames?: number;
  readonly noMap?: boolean;
  /** `pods.via`. */
  readonly via?: string;
  /** Pod DNS cannot give pods the names now. */
  readonly notReady?: boolean;
  readonly pod: PodLike;
}

interface PodLike {
  readonly metadata: object;
  readonly spec: { hostAliases?: unknown };
}

/** Two targets, one of them dual-stack. */
const MAP = `198.51.100.9 a.example.com
198.51.100.9 api.shop.example.com
198.51.100.20 c.example.org
2001:db8::20 c.example.org
198.51.100.9 www.shop.example.com
`;
const map = publishedMapOf("fixture", parseHosts(MAP));

function run(how: GoldenCase, podDns: PodDns | undefined): Decision {
  const { optIn, operation = "CREATE", maxNames = 500, noMap, via = BY_HOSTS, pod: object } = how;
  const request = { uid: "u", kind: { group: "", kind: "Pod" }, operation, namespace: "shop", object };
  const cache = noMap ? undefined : createInjectionCache(map, maxNames);
  return decideInjection(request, optIn, cache, { fallback: via, podDns });
}

/** Tests the pods of a folder. `podDnsOf` gives the webhook's pod DNS for a case. */
export function testGoldenPods(folder: string, podDnsOf: (how: GoldenCase) => PodDns | undefined): void {
  const text = readFileSync(join(folder, "pods.yaml"), "utf8");
  const casesOf = () => Object.entries(parse(text) as Readonly<Record<string, GoldenCase>>);
  const decide = (how: GoldenCase) => run(how, podDnsOf(how));

  const decisionsFile = join(folder, "decisions.json");
  if (UPDATES) {
    const decisions = Object.fromEntries(casesOf().map(([name, how]) => [name, decide(how)]));
    writeFileSync(decisionsFile, `${JSON.stringify(decisions, null, 2)}\n`);
  }
  const expected = JSON.parse(readFileSync(decisionsFile, "utf8"));

  test("each pod has a recorded decision, and each recorded decision has a pod", () => {
    assert.deepEqual(
      Object.keys(expected),
      casesOf().map(([name]) => name),
    );
  });

  for (const [name, how] of casesOf()) {
    test(`pod ${name} gives the recorded decision and patch`, () => {
      assert.deepEqual(JSON.parse(JSON.stringify(decide(how))), expected[name]);
    });

    test(`pod ${name} is not changed by a second pass`, () => {
      const { pod } = how;
      const pass = () => {
        const errors = applyPatch(pod, structuredClone([...(decide(how).patch ?? [])]));
        assert.ok(errors.every((error) => error === null));
        return structuredClone(pod);
      };
      assert.deepEqual(pass(), pass());
    });
  }
}
