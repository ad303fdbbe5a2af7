import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { publishedMapOf } from "../snapshot/map-format.ts";
import { goodNames } from "../test/arbitraries.ts";
import { applyLive as apply, headLength, isKubeletHosts, removeLive as remove } from "./live-hosts.ts";
import { liveAliases } from "./live-hosts-plan.ts";
import { MAX_LINE_BYTES, packLines } from "./pack.ts";
import { createSelector, type SelectedHosts } from "./select-hosts.ts";
import type { HostAlias } from "./types.ts";

const applyLive = (text: string, ours: readonly HostAlias[], chosen: SelectedHosts) =>
  apply(text, liveAliases(ours), chosen);
const removeLive = (text: string, ours: readonly HostAlias[]) => remove(text, liveAliases(ours));

const FRONT = "198.51.100.9";
const OTHER = "198.51.100.10";

function choose(entries: Readonly<Record<string, readonly string[]>>, cap = 500): SelectedHosts {
  return createSelector(publishedMapOf("r", new Map(Object.entries(entries))), cap)(undefined);
}

/** What the kubelet writes for a pod with these aliases. */
function kubelet(aliases: readonly HostAlias[] = []): string {
  const head =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n10.32.0.7\tapi-0\n";
  const lines = aliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
  return lines.length === 0 ? head : `${head}\n# Entries added by HostAliases.\n${lines.join("")}`;
}

/** What a resolver that reads all lines makes of a file. */
function resolved(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [ip, ...names] = (line.split("#")[0] ?? "").trim().split(/\s+/);
    for (const name of names) found.set(name, [...(found.get(name) ?? []), ip ?? ""]);
  }
  return found;
}

const BLOCK = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs\n";

test("new names stand in a block behind what the kubelet wrote", () => {
  const text = applyLive(kubelet(), [], choose({ "b.example.com": [FRONT], "a.example.com": [FRONT] }));
  assert.equal(
    text,
    `${kubelet()}${BLOCK}198.51.100.9\ta.example.com\tb.example.com\t# switchback.dev\n# END switchback.dev\n`,
  );
});

test("names that the spec brought in are not repeated, and a name with another address leaves its line", () => {
  const ours = [{ ip: FRONT, hostnames: ["a.example.com", "b.example.com"] }];
  const same = choose({ "a.example.com": [FRONT], "b.example.com": [FRONT] });
  assert.equal(applyLive(kubelet(ours), ours, same), kubelet(ours));
  const moved = applyLive(kubelet(ours), ours, choose({ "a.example.com": [OTHER], "b.example.com": [FRONT] }));
  assert.deepEqual(resolved(moved).get("a.example.com"), [OTHER]);
  assert.deepEqual(resolved(moved).get("b.example.com"), [FRONT]);
});

test("a name that the map lost leaves the running pod, and comes back with the map", () => {
  const ours = [
    { ip: FRONT, hostnames: ["a.example.com"] },
    { ip: OTHER, hostnames: ["b.example.com"] },
  ];
  const lost = applyLive(kubelet(ours), ours, choose({ "b.example.com": [OTHER] }));
  assert.equal(lost, kubelet(ours).replace("198.51.100.9\ta", "#98.51.100.9\ta"));
  const back = applyLive(lost, ours, choose({ "a.example.com": [FRONT], "b.example.com": [OTHER] }));
  assert.equal(back, kubelet(ours));
});

test("somebody else's line wins: the user's alias, the kubelet's own, one that a container added, in any case of letters", () => {
  const aliases = [{ ip: "10.0.0.1", hostnames: ["User.Example.com"] }];
  const text = `${kubelet(aliases)}10.0.0.2 added.example.com # by its entry point\n`;
  const chosen = choose({ "user.example.com": [FRONT], "added.example.com": [FRONT], "new.example.com": [FRONT] });
  const found = resolved(applyLive(text, [], chosen));
  assert.equal(found.get("user.example.com"), undefined);
  assert.deepEqual(found.get("added.example.com"), ["10.0.0.2"]);
  assert.deepEqual(found.get("new.example.com"), [FRONT]);
});

test("a line that is ours but for its first character is somebody else's", () => {
  const ours = [{ ip: FRONT, hostnames: ["a.example.com"] }];
  const text = `${kubelet(ours)}298.51.100.9\ta.example.com\n`;
  assert.equal(applyLive(text, ours, choose({})), text.replace(`\n${FRONT}\ta`, `\n#${FRONT.slice(1)}\ta`));
});

test("no line of the block is longer than musl reads, what ends it included", () => {
  const names = Array.from({ length: 200 }, (_, index) => `name-${index}.example.com`);
  const text = applyLive(kubelet(), [], choose(Object.fromEntries(names.map((name) => [name, [FRONT]]))));
  const lengths = text.split("\n").map((line) => line.length + 1);
  assert.ok(
    Math.max(...lengths) <= MAX_LINE_BYTES && Math.max(...lengths) > MAX_LINE_BYTES - 30,
    `${Math.max(...lengths)}`,
  );
});

test("a line that a container adds behind the block stays where it is, while the block goes on changing and leaves", () => {
  const chosen = choose({ "a.example.com": [FRONT] });
  const added = `${applyLive(kubelet(), [], chosen)}10.0.0.2 added.example.com\n`;
  assert.equal(applyLive(added, [], chosen), added, "nothing to change");
  const changed = applyLive(added, [], choose({ "b.example.com": [FRONT] }));
  assert.equal(changed.slice(0, kubelet().length), kubelet());
  assert.equal(changed.indexOf("10.0.0.2"), added.indexOf("10.0.0.2"));
  assert.equal(resolved(changed).get("a.example.com"), undefined);
  assert.deepEqual(resolved(changed).get("b.example.com"), [FRONT]);
  assert.equal(removeLive(changed, []), `${kubelet()}10.0.0.2 added.example.com\n`);
});

test("half of a block is known and mended, wherever a write stopped", () => {
  const before = kubelet();
  const chosen = choose({ "a.example.com": [FRONT], "b.example.com": [OTHER] });
  const whole = applyLive(before, [], chosen);
  // Fewer bytes of the first marker are a comment like any other.
  for (let stop = before.length + 18; stop <= whole.length; stop += 1) {
    const half = whole.slice(0, stop);
    assert.equal(applyLive(half, [], chosen), whole, `cut at ${stop}`);
    assert.equal(removeLive(half, []), before, `cut at ${stop}`);
  }
});

test("empty room behind the block, zeros before it and the rest of a marker are ours", () => {
  const chosen = choose({ "a.example.com": [FRONT] });
  const whole = applyLive(kubelet(), [], chosen);
  const block = whole.slice(kubelet().length);
  for (const damaged of [`${whole}\n\n\n`, `${kubelet()}\0\0\0\0${block}`, `${kubelet()}${block.slice(30)}`]) {
    assert.equal(applyLive(damaged, [], chosen), whole);
    assert.equal(removeLive(damaged, []), kubelet());
  }
});

test("a last marker half written over another is ours, however much of it was written", () => {
  const chosen = choose({ "a.example.com": [FRONT] });
  const whole = applyLive(kubelet(), [], chosen);
  const end = "# END switchback.dev";
  for (let written = 1; written <= end.length; written += 1) {
    for (let left = 1; left <= end.length; left += 1) {
      const torn = `${whole.slice(0, -end.length - 1)}${end.slice(0, written)}${end.slice(-left)}\n`;
      assert.equal(applyLive(torn, [], chosen), whole, torn);
      assert.equal(removeLive(torn, []), kubelet(), torn);
    }
  }
});

test("only a file that begins as the kubelet's files do is one", () => {
  assert.ok(isKubeletHosts(kubelet()));
  assert.ok(isKubeletHosts("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"));
  for (const text of ["", "127.0.0.1 localhost\n", "# Kubernetes-managed hosts file", ` ${kubelet()}`])
    assert.ok(!isKubeletHosts(text), text);
});

test("the head that has no part in the change ends where a line of ours, a chosen name or the aliases begin", () => {
  const ours = [{ ip: FRONT, hostnames: ["a.example.com"] }];
  const chosen = choose({ "b.example.com": [FRONT] });
  const head = (text: string) => headLength(text, liveAliases(ours), chosen);
  assert.equal(head(kubelet(ours)), kubelet().length);
  assert.equal(head(kubelet()), kubelet().length);
  assert.equal(head(`${kubelet()}10.0.0.2 B.example.com\n`), kubelet().length);
  assert.equal(head(`${kubelet()}${FRONT}\ta.example.com\n`), kubelet().length);
  assert.equal(head(applyLive(kubelet(), [], chosen)), kubelet().length);
  assert.equal(head(kubelet().slice(0, -1)), kubelet().indexOf("10.32.0.7"), "a line that may go on is none yet");
  assert.ok(head(kubelet() + "10.0.0.2 other.example.com\n".repeat(1000)) < 1000, "a few lines");
});

const ips = fc.constantFrom(FRONT, OTHER, "2001:db8::9");
const entries = fc.dictionary(goodNames, fc.uniqueArray(ips, { minLength: 1, maxLength: 2 }), { maxKeys: 40 });
const theirLines = fc.array(
  fc.oneof(
    fc.tuple(fc.constantFrom("10.0.0.1", "fd00::1"), goodNames).map(([ip, name]) => `${ip} ${name}`),
    fc.string({ unit: fc.constantFrom("a", " ", "\t", "#", "é", "\r", "1", ".", "\0"), maxLength: 30 }),
    fc.constantFrom("", "#", "# BEGIN", "# END", "# switchback.dev"),
  ),
  { maxLength: 12 },
);
/** A hosts file, which of its aliases are ours, and two states of the map. */
const cases = fc.record({
  before: entries,
  now: entries,
  cap: fc.integer({ min: 1, max: 60 }),
  user: theirLines,
  added: theirLines,
  newline: fc.boolean(),
});

function fileOf({
  before,
  user,
  newline,
}: {
  before: typeof entries extends fc.Arbitrary<infer T> ? T : never;
  user: string[];
  newline: boolean;
}) {
  const ours = packLines(Object.entries(before).sort(([a], [b]) => (a < b ? -1 : 1)));
  const text = `${kubelet(ours)}${user.join("\n")}${newline ? "\n" : ""}`;
  return { ours, text };
}

test("property: what was applied is taken off again byte for byte, and applying twice is applying once", () => {
  fc.assert(
    fc.property(cases, ({ before, now, cap, user, newline }) => {
      const { ours, text } = fileOf({ before, user, newline });
      const chosen = choose(now, cap);
      const once = applyLive(text, ours, chosen);
      assert.equal(applyLive(once, ours, chosen), once);
      assert.equal(removeLive(once, ours), text);
      const later = applyLive(once, ours, choose(before, cap));
      assert.equal(later, applyLive(text, ours, choose(before, cap)), "the way there does not matter");
    }),
  );
});

test("property: every chosen name leads where the map says, and none of ours anywhere else", () => {
  fc.assert(
    fc.property(cases, ({ before, now, cap, user, newline }) => {
      const { ours, text } = fileOf({ before, user, newline });
      const chosen = choose(now, cap);
      const once = applyLive(text, ours, chosen);
      const found = resolved(once);
      const theirs = resolved(
        removeLive(once, ours.concat())
          .split("\n")
          .filter((line) => !ours.some((alias) => line === `${alias.ip}\t${alias.hostnames.join("\t")}`))
          .join("\n"),
      );
      for (const name of new Set([...chosen.names, ...Object.keys(before)])) {
        if (theirs.has(name)) continue;
        const wanted = chosen.has(name) ? chosen.addressesOf(name) : undefined;
        assert.deepEqual(found.get(name)?.toSorted(), wanted?.toSorted(), name);
      }
      for (const line of once.split("\n"))
        if (line.endsWith("# switchback.dev") && !user.includes(line))
          assert.ok(Buffer.byteLength(line, "latin1") < MAX_LINE_BYTES, line);
    }),
  );
});

test("property: lines that others add stay, byte for byte and at their place, through any change of the map", () => {
  fc.assert(
    fc.property(cases, fc.array(entries, { maxLength: 4 }), ({ before, now, cap, user, added }, changes) => {
      const { ours, text } = fileOf({ before, user, newline: true });
      const first = applyLive(text, ours, choose(now, cap));
      const behind = `10.9.9.9 marks.the.place\n${added.join("\n")}\n`;
      const place = first.length;
      let file = first + behind;
      for (const change of changes) {
        file = applyLive(file, ours, choose(change, cap));
        assert.equal(file.slice(place, place + behind.length), behind);
      }
      assert.equal(removeLive(file, ours).trimEnd(), `${text}${behind}`.trimEnd());
    }),
  );
});

test("property: what is made of a file is its head and what is made of the rest, in whatever order its lines come", () => {
  fc.assert(
    fc.property(cases, fc.infiniteStream(fc.nat()), ({ before, now, cap, user, newline }, order) => {
      const { ours, text } = fileOf({ before, user, newline });
      const written = applyLive(text, ours, choose(before, cap));
      const lines = written.split("\n").map((line) => ({ line, place: order.next().value % 8 }));
      const mixed = lines.sort((a, b) => a.place - b.place).map(({ line }) => line);
      const chosen = choose(now, cap);
      for (const file of [text, written, mixed.join("\n"), `${mixed.join("\n")}\n`]) {
        const head = headLength(file, liveAliases(ours), chosen);
        assert.equal(file.slice(0, head) + applyLive(file.slice(head), ours, chosen), applyLive(file, ours, chosen));
      }
    }),
  );
});
