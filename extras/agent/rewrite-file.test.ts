import assert from "node:assert/strict";
import { test } from "node:test";
import { packLines } from "#hostmap/pack.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { applyLive as apply, removeLive as remove } from "./live-hosts.ts";
import { liveAliases } from "./live-hosts-plan.ts";
import { rewrite, type WritableFile } from "./rewrite-file.ts";

const applyLive = (text: string, managedAliases: readonly HostAlias[], selected: SelectedHosts) =>
  apply(text, liveAliases(managedAliases), selected);
const removeLive = (text: string, managedAliases: readonly HostAlias[]) => remove(text, liveAliases(managedAliases));

class Killed extends Error {}

/** A file in memory. It accepts `budget` more bytes, then throws `fault`. */
class FakeFile implements WritableFile {
  content: Buffer;
  budget = Number.POSITIVE_INFINITY;
  fault: (() => never) | undefined;
  /** The content after each call. */
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
    this.#record();
    if (count === 0 && bytes.length > 0) this.fault?.();
    return count;
  }

  truncate(size: number): void {
    if (this.budget === 0 && this.fault === kill) kill();
    this.content = this.content.subarray(0, size);
    this.#record();
  }

  size(): number {
    return this.content.length;
  }

  #record(): void {
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

/** A pod's file, the change to apply, and the managed aliases. */
const changes = fc
  .record({
    spec: entries,
    first: entries,
    second: entries,
    added: fc.constantFrom("", "10.0.0.2 added.example.com\n"),
  })
  .map(({ spec, first, second, added }) => {
    const managedAliases = packLines(Object.entries(spec).sort(([a], [b]) => (a < b ? -1 : 1)));
    const select = (map: typeof first) =>
      createSelector(publishedMapOf("r", new Map(Object.entries(map))), 500)(undefined);
    const lines = managedAliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
    const head = "# Kubernetes-managed hosts file.\n10.32.0.7\tapi-0\n\n# Entries added by HostAliases.\n";
    const kubelet = `${head}${lines.join("")}`;
    const before = applyLive(kubelet, managedAliases, select(first)) + added;
    return { managedAliases, before, apply: (text: string) => applyLive(text, managedAliases, select(second)) };
  });

const MARKERS = [
  "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs",
  "# END switchback.dev",
];

/**
 * The lines of a text, except the lines that a killed write may leave and that resolvers ignore: empty lines and
 * fragments of markers.
 */
function effectiveLines(text: string): string[] {
  const isFragment = (line: string) =>
    "# BEGIN switch".startsWith(line) || (line.length < 8 && MARKERS.some((marker) => marker.endsWith(line)));
  return text.split("\n").filter((line) => !isFragment(line));
}

const bytes = (text: string) => Buffer.from(text, "latin1");

test("property: the file gets the new content", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.string({ unit: "binary-ascii" }), (before, after) => {
      const file = new FakeFile(bytes(before));
      rewrite(file, bytes(before), bytes(after));
      assert.equal(file.content.toString("latin1"), after);
    }),
  );
});

test("property: between two steps, a reader sees only whole old or new lines, and all lines that both have", () => {
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

test("property: after a kill at any byte, foreign lines are intact, and the next start completes the content", () => {
  fc.assert(
    fc.property(changes, fc.nat({ max: 3_000 }), ({ managedAliases, before, apply }, budget) => {
      const after = apply(before);
      const file = new FakeFile(bytes(before));
      Object.assign(file, { budget, fault: kill });
      try {
        rewrite(file, bytes(before), bytes(after));
      } catch (error) {
        assert.ok(error instanceof Killed);
      }
      const partial = file.content.toString("latin1");
      assert.deepEqual(
        effectiveLines(removeLive(partial, managedAliases)),
        effectiveLines(removeLive(before, managedAliases)),
      );
      assert.deepEqual(
        effectiveLines(removeLive(apply(partial), managedAliases)),
        effectiveLines(removeLive(before, managedAliases)),
      );
      const names = (text: string) => effectiveLines(text.replace(/\s*#.*$/gm, ""));
      assert.deepEqual(names(apply(partial)), names(after));
    }),
    { numRuns: 1000 },
  );
});

test("property: a disk that fills up while the file is extended leaves the file unchanged", () => {
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

test("a write that fails halfway is reverted", () => {
  const [before, after] = ["0123456789", "0abcdefgh9"].map(bytes) as [Buffer, Buffer];
  const file = new FakeFile(before);
  Object.assign(file, { budget: 4, fault: full });
  const put = file.write.bind(file);
  file.write = (part, position) => {
    try {
      return put(part, position);
    } catch (error) {
      // The disk blocks of the old bytes are still allocated, so they can be written again.
      file.budget = Number.POSITIVE_INFINITY;
      throw error;
    }
  };
  assert.throws(() => rewrite(file, before, after), { code: "ENOSPC" });
  assert.equal(file.content.toString(), "0123456789");
});
