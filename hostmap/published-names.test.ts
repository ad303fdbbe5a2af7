import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PublishedNames, type RemovalRules } from "./published-names.ts";

const RULES: RemovalRules = { vanishMs: 60, guardNames: 10, holdMs: 300 };
const IP = ["198.51.100.9"];

function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `n${index}.example.com`);
}

function ledgerOf(count: number, rules = RULES): PublishedNames {
  const ledger = new PublishedNames(rules);
  for (const name of names(count)) ledger.want(name, IP);
  ledger.settle(0);
  return ledger;
}

function release(ledger: PublishedNames, from: number, to: number, now: number): void {
  for (const name of names(to).slice(from)) ledger.release(name, now);
}

test("a vanished name leaves after its time, not before, and only once", () => {
  const ledger = ledgerOf(3);
  ledger.release("n0.example.com", 100);
  ledger.release("n0.example.com", 150);
  assert.equal(ledger.nextDeadline(), 160, "the first time counts");
  assert.equal(ledger.settle(159).size, 0);
  assert.deepEqual([...ledger.settle(160)], ["n0.example.com"]);
  assert.equal(ledger.addressesOf("n0.example.com"), undefined);
  assert.equal(ledger.nextDeadline(), undefined);
});

test("a name that comes back in time never left", () => {
  const ledger = ledgerOf(3);
  ledger.release("n0.example.com", 100);
  ledger.want("n0.example.com", IP);
  assert.equal(ledger.settle(1_000).size, 0);
});

test("an unknown address keeps the line that is there and makes none", () => {
  const ledger = ledgerOf(1);
  ledger.release("n0.example.com", 0);
  ledger.want("n0.example.com", []);
  ledger.want("new.example.com", []);
  assert.equal(ledger.settle(1_000).size, 0);
  assert.deepEqual(ledger.addressesOf("n0.example.com"), IP);
  assert.equal(ledger.size, 1);
});

test("a changed address goes through at once, an equal one is no change", () => {
  const ledger = ledgerOf(1);
  ledger.want("n0.example.com", [...IP]);
  assert.equal(ledger.settle(1).size, 0);
  ledger.want("n0.example.com", ["198.51.100.7", "2001:db8::7"]);
  assert.deepEqual([...ledger.settle(1)], ["n0.example.com"]);
});

test("a loss of more than half of ten names is held, of half of them or among nine it is not", () => {
  for (const [count, lost, held] of [
    [10, 6, true],
    [10, 5, false],
    [9, 9, false],
    [11, 6, true],
  ] as const) {
    const ledger = ledgerOf(count);
    release(ledger, 0, lost, 100);
    ledger.settle(100);
    assert.equal(ledger.hold !== undefined, held, `${lost} of ${count}`);
    ledger.settle(160);
    assert.equal(ledger.size, held ? count : count - lost);
  }
});

test("a loss that adds up within one vanish time is held; one that is spread wider is not", () => {
  const fast = ledgerOf(12);
  release(fast, 0, 4, 100);
  fast.settle(100);
  release(fast, 4, 7, 159);
  fast.settle(159);
  assert.deepEqual(fast.hold, { id: "4f", since: 159, until: 459, names: 7, of: 12 });
  const slow = ledgerOf(12);
  release(slow, 0, 4, 100);
  slow.settle(160);
  release(slow, 4, 7, 161);
  slow.settle(161);
  assert.equal(slow.hold, undefined);
});

test("while a removal is held, additions and changes go through", () => {
  const ledger = ledgerOf(10);
  release(ledger, 0, 8, 100);
  ledger.settle(100);
  ledger.want("new.example.com", IP);
  assert.deepEqual([...ledger.settle(101)], ["new.example.com"]);
  assert.notEqual(ledger.hold, undefined);
});

test("a hold ends when its time is up, and the names go", () => {
  const ledger = ledgerOf(10);
  release(ledger, 0, 8, 100);
  ledger.settle(100);
  assert.equal(ledger.nextDeadline(), 400);
  assert.equal(ledger.settle(399).size, 0);
  assert.equal(ledger.settle(400).size, 8);
  assert.equal(ledger.hold, undefined);
});

test("a hold ends when enough names come back, and the rest leave as any name does", () => {
  const ledger = ledgerOf(10);
  release(ledger, 0, 6, 100);
  ledger.settle(100);
  ledger.want("n0.example.com", IP);
  assert.equal(ledger.settle(120).size, 0);
  assert.equal(ledger.hold, undefined);
  assert.equal(ledger.settle(160).size, 5);
});

test("names that join a hold late wait their own time, under a guard of their own", () => {
  const ledger = ledgerOf(100);
  release(ledger, 0, 60, 100);
  ledger.settle(100);
  release(ledger, 60, 95, 399);
  assert.equal(ledger.settle(400).size, 60, "those of the hold go");
  assert.deepEqual(ledger.hold, { id: "b4", since: 400, until: 700, names: 35, of: 40 });
  assert.equal(ledger.settle(699).size, 0);
  assert.equal(ledger.settle(700).size, 35);
});

test("a hold is never shorter than the vanish time, so that it ends with its names", () => {
  const ledger = ledgerOf(10, { ...RULES, holdMs: 0 });
  release(ledger, 0, 8, 100);
  ledger.settle(100);
  assert.equal(ledger.nextDeadline(), 160);
  assert.equal(ledger.settle(159).size, 0);
  assert.equal(ledger.settle(160).size, 8);
});

test("only the id of the present hold confirms it", () => {
  const ledger = ledgerOf(10);
  assert.equal(ledger.confirm("2s")?.code, "nothing-held");
  release(ledger, 0, 8, 100);
  ledger.settle(100);
  const id = ledger.hold?.id ?? "";
  assert.equal(ledger.confirm("other")?.code, "other-hold");
  assert.equal(ledger.settle(101).size, 0);
  assert.equal(ledger.confirm(id), undefined);
  assert.equal(ledger.settle(102).size, 8);
  for (const name of names(20)) ledger.want(name, IP);
  ledger.settle(200);
  release(ledger, 0, 20, 200);
  ledger.settle(200);
  assert.equal(ledger.confirm(id)?.code, "other-hold", "an old confirmation releases no later hold");
});

test("what an earlier leader published is there, unchanged, and leaves as slowly as any other", () => {
  const ledger = new PublishedNames(RULES);
  ledger.load([["old.example.com", IP]]);
  assert.equal(ledger.settle(0).size, 0);
  ledger.release("old.example.com", 0);
  assert.equal(ledger.settle(59).size, 0);
  assert.equal(ledger.settle(60).size, 1);
});

/** The rules once more, as plainly as they can be said: every name on its own, everything looked at at every step. */
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
    const guarded = this.lines.size >= RULES.guardNames && this.vanished.size > this.lines.size / 2;
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
  { weight: 1, arbitrary: fc.record({ do: fc.constant("confirm" as const), right: fc.boolean() }) },
);

test("property: the ledger does what the plain rules say, whatever comes and goes and whenever it is looked at", () => {
  let holds = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const ledger = new PublishedNames(RULES);
      const model = new Model();
      const told = new Map<string, string>();
      let now = 1_000;
      const settle = () => {
        const before = ledger.hold?.since;
        for (const name of ledger.settle(now)) {
          const [address] = ledger.addressesOf(name) ?? [];
          if (address === undefined) told.delete(name);
          else told.set(name, address);
        }
        model.settle(now);
        assert.equal(ledger.hold?.since, model.heldSince);
        if (before === undefined && ledger.hold !== undefined) holds += 1;
        assert.deepEqual(new Map([...told].sort()), new Map([...model.lines].sort()), "what settle() told adds up");
        const deadline = ledger.nextDeadline();
        assert.ok(deadline === undefined ? model.vanished.size === 0 : deadline > now || ledger.hold === undefined);
      };
      for (const name of names(16)) {
        ledger.want(name, ["x"]);
        model.want(name, "x");
      }
      settle();
      for (const next of steps) {
        const name = "name" in next ? `n${next.name}.example.com` : "";
        if (next.do === "want") {
          ledger.want(name, next.address === undefined ? [] : [next.address]);
          model.want(name, next.address);
        } else if (next.do === "release") {
          ledger.release(name, now);
          model.release(name, now);
        } else if (next.do === "release-many") {
          for (const other of names(16).slice(next.from)) {
            ledger.release(other, now);
            model.release(other, now);
          }
        } else if (next.do === "wait") now += next.ms;
        else if (next.right && ledger.hold !== undefined) {
          assert.equal(ledger.confirm(ledger.hold.id), undefined);
          model.heldSince = undefined;
          model.leave(now);
        } else assert.notEqual(ledger.confirm("wrong"), undefined);
        settle();
      }
    }),
    { numRuns: 500 },
  );
  assert.ok(holds > 50, `the guard came into play ${holds} times`);
});
