import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reason } from "#hostmap/types.ts";
import { OTHER, TARGET } from "#test/fakes/published-targets.ts";
import { parseTargets, renderTargets } from "./targets-format.ts";

const document = (change: object, target: object = TARGET) =>
  JSON.stringify({ version: 1, revision: "r", targets: [target], ...change });

const ports = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ ...OTHER.ports[0], listenPort: 15_000 + index }));
const port = (more: object) => document({}, { ...TARGET, ports: [{ ...TARGET.ports[0], ...more }] });
/** For each limit: the last document that is accepted, and the first one that is not. */
const LIMITS: ReadonlyArray<readonly [what: string, good: string, bad: string, said: RegExp]> = [
  ["the least port", port({ port: 1 }), port({ port: 0 }), /ports\.0\.port:/],
  ["the greatest port", port({ upstreamPort: 65_535 }), port({ upstreamPort: 65_536 }), /ports\.0\.upstreamPort:/],
  ["a port's protocol", port({ protocol: "none" }), port({ protocol: "v3" }), /ports\.0\.protocol:/],
  ...(
    [
      ["the longest name", "a".repeat(52), "a".repeat(53)],
      ["the end of a name", "a-b", "a-"],
      ["the beginning of a name", "0", "-a"],
    ] as const
  ).map(
    ([what, good, bad]) =>
      [what, document({}, { ...TARGET, name: good }), document({}, { ...TARGET, name: bad }), /0\.name:/] as const,
  ),
  ...(
    [
      ["the shortest upstream", "h", ""],
      ["the longest upstream", "h".repeat(254), "h".repeat(255)],
      ["the end of an upstream", "a_b:1-2.", "a\n"],
      ["the beginning of an upstream", "_a", "/a"],
    ] as const
  ).map(
    ([what, good, bad]) =>
      [
        what,
        document({}, { ...TARGET, upstream: good }),
        document({}, { ...TARGET, upstream: bad }),
        /upstream:/,
      ] as const,
  ),
  [
    "the most ports",
    document({}, { ...TARGET, ports: ports(200) }),
    document({}, { ...TARGET, ports: ports(201) }),
    /0\.ports:/,
  ],
  [
    "the most addresses",
    document({}, TARGET),
    document({}, { ...TARGET, clusterIPs: [...TARGET.clusterIPs, "10.96.0.8"] }),
    /0\.clusterIPs:/,
  ],
  ["a time", document({}, OTHER), document({}, { ...OTHER, unusedSince: "yesterday" }), /unusedSince:/],
];
for (const [what, good, bad, said] of LIMITS) {
  test(`${what}: the last good document is accepted, and the first bad one is not`, () => {
    assert.ok(!("code" in parseTargets(good)));
    const parsed = parseTargets(bad);
    assert.match("code" in parsed ? parsed.text : "", said);
  });
}

test("a text of a million bytes is parsed, but not a longer one", () => {
  const parsed = (length: number) => parseTargets(" ".repeat(length)) as Reason;
  assert.match(parsed(1_000_000).text, /^targets\.json is not JSON: /);
  assert.deepEqual(parsed(1_000_001), {
    code: "targets-malformed",
    text: "targets.json has 1000001 bytes; at most 1000000 are read",
  });
});

test("the text is JSON with one value per line for people, and ends with a line break", () => {
  const { text, targetsRevision } = renderTargets([]);
  assert.equal(text, `{\n "version": 1,\n "revision": "${targetsRevision}",\n "targets": []\n}\n`);
});
