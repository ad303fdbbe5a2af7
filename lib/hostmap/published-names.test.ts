import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { PublishedNames, type RemovalRules } from "./published-names.ts";

const RULES: RemovalRules = { vanishMs: 60, holdMs: 300 };
const IP = ["198.51.100.9"];

function loaded(name: string) {
  return { name, addresses: IP, holder: undefined, target: undefined };
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `n${index}.example.com`);
}

function publishedOf(count: number, rules = RULES): PublishedNames {
  const published = new PublishedNames(rules);
  for (const name of names(count)) published.want(name, { addresses: IP });
  published.settle(0);
  return published;
}

function release(published: PublishedNames, from: number, to: number, now: number): void {
  for (const name of names(to).slice(from)) published.release(name, now);
}

test("names keep the order of their first publication, also under a new leader; removed names lose it", () => {
  const published = publishedOf(2);
  const order = (of: PublishedNames) => Array.from(of.lines.keys(), (name) => name.split(".", 1)[0]);
  published.want("late.example.com", { addresses: IP });
  published.want("n0.example.com", { addresses: ["198.51.100.1"] });
  published.settle(2);
  assert.deepEqual(order(published), ["n0", "n1", "late"]);
  const next = new PublishedNames(RULES, () => ({ addresses: IP, holder: "heir", target: "edge" }));
  next.load(["old", "n0", "n1", "late"].map((label) => loaded(`${label}.example.com`)));
  next.want("new.example.com", { addresses: IP });
  next.release("n0.example.com", 0);
  next.settle(60);
  assert.equal(next.lineOf("n0.example.com")?.holder, "heir");
  assert.deepEqual(order(next), ["old", "n0", "n1", "late", "new"], "an heir takes the place of the holder");
  published.release("n0.example.com", 0);
  published.settle(60);
  published.want("n0.example.com", { addresses: IP });
  published.settle(61);
  assert.deepEqual(order(published), ["n1", "late", "n0"]);
  const orders = published.lines
    .values()
    .map((line) => line.order)
    .toArray();
  assert.deepEqual(
    orders,
    orders.toSorted((a, b) => a - b),
  );
});

test("a changed address is published at once, and an equal address is not a change", () => {
  const published = publishedOf(1);
  published.want("n0.example.com", { addresses: [...IP] });
  assert.equal(published.settle(1).size, 0);
  published.want("n0.example.com", { addresses: ["198.51.100.7", "2001:db8::7"] });
  assert.deepEqual([...published.settle(1)], ["n0.example.com"]);
});

test("a removal of more than half of ten names is held, but not of half of them, and not of nine names", () => {
  for (const [count, lost, held] of [
    [10, 6, true],
    [10, 5, false],
    [9, 9, false],
    [11, 6, true],
  ] as const) {
    const published = publishedOf(count);
    release(published, 0, lost, 100);
    published.settle(100);
    assert.equal(published.hold !== undefined, held, `${lost} of ${count}`);
    published.settle(160);
    assert.equal(published.size, held ? count : count - lost);
  }
});

/** A naive model of the rules. It treats each name separately and checks everything at every step. */
class Model {
  readonly lines = new Map<string, string>();
  readonly vanished = new Map<string, number>();
  heldSince: number | undefined;

  want(name: string, address: string | undefined): void {
    this.vanished.delete(name);
    if (address !== undefined) this.lines.set(name, address);
  }

  release(name: string, now: number): void {
    if (this.lines.has(name) && !this.vanished.has(name)) this.vanished.set(name, now);
  }

  settle(now: number): void {
    if (this.heldSince !== undefined && now >= this.heldSince + RULES.holdMs) {
      this.heldSince = undefined;
      this.leave(now - RULES.vanishMs);
    }
    const guarded = this.lines.size >= 10 && this.vanished.size > this.lines.size / 2;
    this.heldSince = guarded ? (this.heldSince ?? now) : undefined;
    if (!guarded) this.leave(now - RULES.vanishMs);
  }

  leave(vanishedBy: number): void {
    for (const [name, since] of [...this.vanished]) {
      if (since > vanishedBy) continue;
      this.vanished.delete(name);
      this.lines.delete(name);
    }
  }
}

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("want" as const),
      name: fc.nat(15),
      address: fc.constantFrom("x", "y", undefined),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("release" as const), name: fc.nat(15) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("release-many" as const), from: fc.nat(15) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(1, 10, 59, 60, 100, 299, 300) }),
  },
);

test("property: the published names equal the naive model for any sequence of changes and any timing", () => {
  let holds = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const published = new PublishedNames(RULES);
      const model = new Model();
      const lines = new Map<string, string>();
      let now = 1_000;
      const settle = () => {
        const before = published.hold?.since;
        for (const name of published.settle(now)) {
          const [address] = published.lineOf(name)?.addresses ?? [];
          if (address === undefined) lines.delete(name);
          else lines.set(name, address);
        }
        model.settle(now);
        assert.equal(published.hold?.since, model.heldSince);
        if (before === undefined && published.hold !== undefined) holds += 1;
        assert.deepEqual(
          new Map([...lines].sort()),
          new Map([...model.lines].sort()),
          "the changes of settle() add up",
        );
        const deadline = published.nextDeadline();
        assert.ok(deadline === undefined ? model.vanished.size === 0 : deadline > now || published.hold === undefined);
      };
      for (const name of names(16)) {
        published.want(name, { addresses: ["x"] });
        model.want(name, "x");
      }
      settle();
      for (const next of steps) {
        const name = "name" in next ? `n${next.name}.example.com` : "";
        if (next.do === "want") {
          published.want(name, { addresses: next.address === undefined ? [] : [next.address] });
          model.want(name, next.address);
        } else if (next.do === "release") {
          published.release(name, now);
          model.release(name, now);
        } else if (next.do === "release-many") {
          for (const other of names(16).slice(next.from)) {
            published.release(other, now);
            model.release(other, now);
          }
        } else now += next.ms;
        settle();
      }
    }),
    { numRuns: 500 },
  );
  assert.ok(holds > 50, `the guard held removals ${holds} times`);
});
