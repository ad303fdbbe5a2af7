import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { applyLive as apply, removeLive as remove } from "../hostmap/live-hosts.ts";
import { liveAliases } from "../hostmap/live-hosts-plan.ts";
import { packLines } from "../hostmap/pack.ts";
import { createSelector, type SelectedHosts } from "../hostmap/select-hosts.ts";
import type { HostAlias } from "../hostmap/types.ts";
import { publishedMapOf } from "../snapshot/published-map.ts";
import { goodNames } from "../test/arbitraries.ts";
import { rewrite, type WritableFile } from "./rewrite-file.ts";

const applyLive = (text: string, ours: readonly HostAlias[], chosen: SelectedHosts) =>
  apply(text, liveAliases(ours), chosen);
const removeLive = (text: string, ours: readonly HostAlias[]) => remove(text, liveAliases(ours));

class Killed extends Error {}

/** A file in memory. `budget`: bytes that may still be written; then `fault` says what happens. */
class FakeFile implements WritableFile {
  content: Buffer;
  budget = Number.POSITIVE_INFINITY;
  fault: (() => never) | undefined;
  /** What was there between two calls. */
  readonly states: string[] = [];

  constructor(content: Buffer) {
    this.content = content;
  }

  append(bytes: Buffer): number {
    return this.write(bytes, this.content.length);
  }

  write(bytes: Buffer, position: number): number {
    const count = Math.min(bytes.length, this.budget);
    this.budget -= count;
    const size = Math.max(this.content.length, position + count);
    const next = Buffer.alloc(size);
    this.content.copy(next);
    bytes.copy(next, position, 0, count);
    this.content = next;
    this.#note();
    if (count === 0 && bytes.length > 0) this.fault?.();
    return count;
  }

  truncate(size: number): void {
    if (this.budget === 0 && this.fault === kill) kill();
    this.content = this.content.subarray(0, size);
    this.#note();
  }

  size(): number {
    return this.content.length;
  }

  #note(): void {
    this.states.push(this.content.toString("latin1"));
  }
}

function kill(): never {
  throw new Killed("killed");
}

function full(): never {
  throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
}

const ips = fc.constantFrom("198.51.100.9", "198.51.100.10", "2001:db8::9");
const entries = fc.dictionary(goodNames, fc.uniqueArray(ips, { minLength: 1, maxLength: 2 }), { maxKeys: 30 });

/** A pod's file as it stands, what it is to become, and which of its aliases are ours. */
const changes = fc
  .record({
    spec: entries,
    first: entries,
    second: entries,
    added: fc.constantFrom("", "10.0.0.2 added.example.com\n"),
  })
  .map(({ spec, first, second, added }) => {
    const ours = packLines(Object.entries(spec).sort(([a], [b]) => (a < b ? -1 : 1)));
    const choose = (map: typeof first) =>
      createSelector(publishedMapOf("r", new Map(Object.entries(map))), 500)(undefined);
    const lines = ours.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
    const kubelet = `# Kubernetes-managed hosts file.\n10.32.0.7\tapi-0\n\n# Entries added by HostAliases.\n${lines.join("")}`;
    const before = applyLive(kubelet, ours, choose(first)) + added;
    return { ours, before, apply: (text: string) => applyLive(text, ours, choose(second)) };
  });

const MARKERS = [
  "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs",
  "# END switchback.dev",
];

/** A text's lines without what a killed write may leave and no resolver reads: empty ones, and too little of a marker to know it. */
function legible(text: string): string[] {
  const isRest = (line: string) =>
    "# BEGIN switch".startsWith(line) || (line.length < 8 && MARKERS.some((marker) => marker.endsWith(line)));
  return text.split("\n").filter((line) => !isRest(line));
}

const bytes = (text: string) => Buffer.from(text, "latin1");

test("property: the file becomes what it should", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.string({ unit: "binary-ascii" }), (before, after) => {
      const file = new FakeFile(bytes(before));
      rewrite(file, bytes(before), bytes(after));
      assert.equal(file.content.toString("latin1"), after);
    }),
  );
});

test("property: between two steps a reader sees whole lines, of the old content or the new, and always what both have", () => {
  fc.assert(
    fc.property(changes, ({ before, apply }) => {
      const after = apply(before);
      const file = new FakeFile(bytes(before));
      rewrite(file, bytes(before), bytes(after));
      const [old, now] = [before, after].map((text) => new Set(text.split("\n"))) as [Set<string>, Set<string>];
      for (const state of file.states) {
        const lines = new Set(state.split("\n"));
        assert.deepEqual([...lines.difference(old.union(now))], []);
        assert.deepEqual([...old.intersection(now).difference(lines)], []);
      }
    }),
  );
});

test("property: killed at any byte, no line of anybody else's is hurt, and the next start makes it what it should be", () => {
  fc.assert(
    fc.property(changes, fc.nat({ max: 3_000 }), ({ ours, before, apply }, budget) => {
      const after = apply(before);
      const file = new FakeFile(bytes(before));
      Object.assign(file, { budget, fault: kill });
      try {
        rewrite(file, bytes(before), bytes(after));
      } catch (error) {
        assert.ok(error instanceof Killed);
      }
      const stands = file.content.toString("latin1");
      assert.deepEqual(legible(removeLive(stands, ours)), legible(removeLive(before, ours)));
      assert.deepEqual(legible(removeLive(apply(stands), ours)), legible(removeLive(before, ours)));
      const names = (text: string) => legible(text.replace(/\s*#.*$/gm, ""));
      assert.deepEqual(names(apply(stands)), names(after));
    }),
    { numRuns: 1000 },
  );
});

test("property: a disk that fills up while room is made leaves the file as it was", () => {
  fc.assert(
    fc.property(changes, fc.nat({ max: 3_000 }), ({ before, apply }, budget) => {
      const after = apply(before);
      const file = new FakeFile(bytes(before));
      const growth = after.length - before.length;
      if (growth <= 0) return;
      Object.assign(file, { budget: budget % growth, fault: full });
      assert.throws(() => rewrite(file, bytes(before), bytes(after)), { code: "ENOSPC" });
      assert.equal(file.content.toString("latin1"), before);
    }),
  );
});

test("a write that fails in the midst is taken back", () => {
  const [before, after] = ["0123456789", "0abcdefgh9"].map(bytes) as [Buffer, Buffer];
  const file = new FakeFile(before);
  Object.assign(file, { budget: 4, fault: full });
  const put = file.write.bind(file);
  file.write = (part, position) => {
    try {
      return put(part, position);
    } catch (error) {
      // The room that the old bytes had is theirs still.
      file.budget = Number.POSITIVE_INFINITY;
      throw error;
    }
  };
  assert.throws(() => rewrite(file, before, after), { code: "ENOSPC" });
  assert.equal(file.content.toString(), "0123456789");
});
