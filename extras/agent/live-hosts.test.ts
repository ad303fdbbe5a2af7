import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_LINE_BYTES, packLines } from "#hostmap/pack.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias } from "#hostmap/types.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { goodNames } from "#test/arbitraries.ts";
import { fc } from "#test/property.ts";
import { applyLive as apply, headLength, isKubeletHosts, removeLive as remove } from "./live-hosts.ts";
import { liveAliases } from "./live-hosts-plan.ts";

const applyLive = (text: string, managed: readonly HostAlias[], selected: SelectedHosts) =>
  apply(text, liveAliases(managed), selected);
const removeLive = (text: string, managed: readonly HostAlias[]) => remove(text, liveAliases(managed));

const FRONT = "198.51.100.9";
const OTHER = "198.51.100.10";

function select(entries: Readonly<Record<string, readonly string[]>>, cap = 500): SelectedHosts {
  return createSelector(publishedMapOf("r", new Map(Object.entries(entries))), cap)(undefined);
}

/** What the kubelet writes for a pod with these aliases. */
function kubelet(aliases: readonly HostAlias[] = []): string {
  const head =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n10.32.0.7\tapi-0\n";
  const lines = aliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
  return lines.length === 0 ? head : `${head}\n# Entries added by HostAliases.\n${lines.join("")}`;
}

/** The mapping that a resolver reads from all lines of a file. */
function resolved(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const line of text.split("\n")) {
    const [ip, ...names] = (line.split("#")[0] ?? "").trim().split(/\s+/);
    for (const name of names) found.set(name, [...(found.get(name) ?? []), ip ?? ""]);
  }
  return found;
}

const BLOCK = "# BEGIN switchback.dev: names of this cluster, kept current while the pod runs\n";

test("new names are in a block after the kubelet's lines", () => {
  const text = applyLive(kubelet(), [], select({ "b.example.com": [FRONT], "a.example.com": [FRONT] }));
  assert.equal(
    text,
    `${kubelet()}${BLOCK}198.51.100.9\ta.example.com\tb.example.com\t# switchback.dev\n# END switchback.dev\n`,
  );
});

test("names of the pod's hostAliases are not repeated; if an address changes, their line is commented out", () => {
  const managed = [{ ip: FRONT, hostnames: ["a.example.com", "b.example.com"] }];
  const same = select({ "a.example.com": [FRONT], "b.example.com": [FRONT] });
  assert.equal(applyLive(kubelet(managed), managed, same), kubelet(managed));
  const moved = applyLive(kubelet(managed), managed, select({ "a.example.com": [OTHER], "b.example.com": [FRONT] }));
  assert.deepEqual(resolved(moved).get("a.example.com"), [OTHER]);
  assert.deepEqual(resolved(moved).get("b.example.com"), [FRONT]);
});

test("a name that leaves the map is removed from the running pod, and comes back when the map has it again", () => {
  const managed = [
    { ip: FRONT, hostnames: ["a.example.com"] },
    { ip: OTHER, hostnames: ["b.example.com"] },
  ];
  const lost = applyLive(kubelet(managed), managed, select({ "b.example.com": [OTHER] }));
  assert.equal(lost, kubelet(managed).replace("198.51.100.9\ta", "#98.51.100.9\ta"));
  const back = applyLive(lost, managed, select({ "a.example.com": [FRONT], "b.example.com": [OTHER] }));
  assert.equal(back, kubelet(managed));
});

test("a foreign line wins, in upper or lower case: a user's alias, a kubelet's line or a container's line", () => {
  const aliases = [{ ip: "10.0.0.1", hostnames: ["User.Example.com"] }];
  const text = `${kubelet(aliases)}10.0.0.2 added.example.com # by its entry point\n`;
  const selected = select({ "user.example.com": [FRONT], "added.example.com": [FRONT], "new.example.com": [FRONT] });
  const found = resolved(applyLive(text, [], selected));
  assert.equal(found.get("user.example.com"), undefined);
  assert.deepEqual(found.get("added.example.com"), ["10.0.0.2"]);
  assert.deepEqual(found.get("new.example.com"), [FRONT]);
});

test("a line that differs from a managed one in its first character is foreign", () => {
  const managed = [{ ip: FRONT, hostnames: ["a.example.com"] }];
  const text = `${kubelet(managed)}298.51.100.9\ta.example.com\n`;
  assert.equal(applyLive(text, managed, select({})), text.replace(`\n${FRONT}\ta`, `\n#${FRONT.slice(1)}\ta`));
});

test("no line of the block, including its tag, is longer than musl reads", () => {
  const names = Array.from({ length: 200 }, (_, index) => `name-${index}.example.com`);
  const text = applyLive(kubelet(), [], select(Object.fromEntries(names.map((name) => [name, [FRONT]]))));
  const lengths = text.split("\n").map((line) => line.length + 1);
  assert.ok(
    Math.max(...lengths) <= MAX_LINE_BYTES && Math.max(...lengths) > MAX_LINE_BYTES - 30,
    `${Math.max(...lengths)}`,
  );
});

test("a line that a container adds after the block stays in place while the block changes and is removed", () => {
  const selected = select({ "a.example.com": [FRONT] });
  const added = `${applyLive(kubelet(), [], selected)}10.0.0.2 added.example.com\n`;
  assert.equal(applyLive(added, [], selected), added, "nothing to change");
  const changed = applyLive(added, [], select({ "b.example.com": [FRONT] }));
  assert.equal(changed.slice(0, kubelet().length), kubelet());
  assert.equal(changed.indexOf("10.0.0.2"), added.indexOf("10.0.0.2"));
  assert.equal(resolved(changed).get("a.example.com"), undefined);
  assert.deepEqual(resolved(changed).get("b.example.com"), [FRONT]);
  assert.equal(removeLive(changed, []), `${kubelet()}10.0.0.2 added.example.com\n`);
});

test("a partly written block is recognized and repaired, wherever the write stopped", () => {
  const before = kubelet();
  const selected = select({ "a.example.com": [FRONT], "b.example.com": [OTHER] });
  const whole = applyLive(before, [], selected);
  // A shorter prefix of the first marker is an ordinary comment.
  for (let stop = before.length + 18; stop <= whole.length; stop += 1) {
    const half = whole.slice(0, stop);
    assert.equal(applyLive(half, [], selected), whole, `cut at ${stop}`);
    assert.equal(removeLive(half, []), before, `cut at ${stop}`);
  }
});

test("empty lines after the block, NUL bytes before it and the end of a marker are managed", () => {
  const selected = select({ "a.example.com": [FRONT] });
  const whole = applyLive(kubelet(), [], selected);
  const block = whole.slice(kubelet().length);
  for (const damaged of [`${whole}\n\n\n`, `${kubelet()}\0\0\0\0${block}`, `${kubelet()}${block.slice(30)}`]) {
    assert.equal(applyLive(damaged, [], selected), whole);
    assert.equal(removeLive(damaged, []), kubelet());
  }
});

test("an end marker partly written over another is managed, wherever the write stopped", () => {
  const selected = select({ "a.example.com": [FRONT] });
  const whole = applyLive(kubelet(), [], selected);
  const end = "# END switchback.dev";
  for (let written = 1; written <= end.length; written += 1) {
    for (let left = 1; left <= end.length; left += 1) {
      const torn = `${whole.slice(0, -end.length - 1)}${end.slice(0, written)}${end.slice(-left)}\n`;
      assert.equal(applyLive(torn, [], selected), whole, torn);
      assert.equal(removeLive(torn, []), kubelet(), torn);
    }
  }
});

test("only a file with a kubelet header is a kubelet file", () => {
  assert.ok(isKubeletHosts(kubelet()));
  assert.ok(isKubeletHosts("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"));
  for (const text of ["", "127.0.0.1 localhost\n", "# Kubernetes-managed hosts file", ` ${kubelet()}`])
    assert.ok(!isKubeletHosts(text), text);
});

test("the unchanged head ends at the first managed line, selected name or alias", () => {
  const managed = [{ ip: FRONT, hostnames: ["a.example.com"] }];
  const selected = select({ "b.example.com": [FRONT] });
  const head = (text: string) => headLength(text, liveAliases(managed), selected);
  assert.equal(head(kubelet(managed)), kubelet().length);
  assert.equal(head(kubelet()), kubelet().length);
  assert.equal(head(`${kubelet()}10.0.0.2 B.example.com\n`), kubelet().length);
  assert.equal(head(`${kubelet()}${FRONT}\ta.example.com\n`), kubelet().length);
  assert.equal(head(applyLive(kubelet(), [], selected)), kubelet().length);
  assert.equal(head(kubelet().slice(0, -1)), kubelet().indexOf("10.32.0.7"), "an unterminated line is not part of it");
  assert.ok(head(kubelet() + "10.0.0.2 other.example.com\n".repeat(1000)) < 1000, "a few lines");
});

const ips = fc.constantFrom(FRONT, OTHER, "2001:db8::9");
const entries = fc.dictionary(goodNames, fc.uniqueArray(ips, { minLength: 1, maxLength: 2 }), { maxKeys: 40 });
const foreignLines = fc.array(
  fc.oneof(
    fc.tuple(fc.constantFrom("10.0.0.1", "fd00::1"), goodNames).map(([ip, name]) => `${ip} ${name}`),
    fc.string({ unit: fc.constantFrom("a", " ", "\t", "#", "é", "\r", "1", ".", "\0"), maxLength: 30 }),
    fc.constantFrom("", "#", "# BEGIN", "# END", "# switchback.dev"),
  ),
  { maxLength: 12 },
);
/** A hosts file, its managed aliases, and two states of the map. */
const cases = fc.record({
  before: entries,
  now: entries,
  cap: fc.integer({ min: 1, max: 60 }),
  user: foreignLines,
  added: foreignLines,
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
  const managed = packLines(Object.entries(before).sort(([a], [b]) => (a < b ? -1 : 1)));
  const text = `${kubelet(managed)}${user.join("\n")}${newline ? "\n" : ""}`;
  return { managed, text };
}

test("property: removeLive restores the file byte for byte, and applyLive is idempotent", () => {
  fc.assert(
    fc.property(cases, ({ before, now, cap, user, newline }) => {
      const { managed, text } = fileOf({ before, user, newline });
      const selected = select(now, cap);
      const once = applyLive(text, managed, selected);
      assert.equal(applyLive(once, managed, selected), once);
      assert.equal(removeLive(once, managed), text);
      const later = applyLive(once, managed, select(before, cap));
      assert.equal(later, applyLive(text, managed, select(before, cap)), "earlier states do not matter");
    }),
  );
});

test("property: every selected name has its address of the map, and no managed line has another", () => {
  fc.assert(
    fc.property(cases, ({ before, now, cap, user, newline }) => {
      const { managed, text } = fileOf({ before, user, newline });
      const selected = select(now, cap);
      const once = applyLive(text, managed, selected);
      const found = resolved(once);
      const foreign = resolved(
        removeLive(once, managed.concat())
          .split("\n")
          .filter((line) => !managed.some((alias) => line === `${alias.ip}\t${alias.hostnames.join("\t")}`))
          .join("\n"),
      );
      for (const name of new Set([...selected.names, ...Object.keys(before)])) {
        if (foreign.has(name)) continue;
        const wanted = selected.has(name) ? selected.addressesOf(name) : undefined;
        assert.deepEqual(found.get(name)?.toSorted(), wanted?.toSorted(), name);
      }
      for (const line of once.split("\n"))
        if (line.endsWith("# switchback.dev") && !user.includes(line))
          assert.ok(Buffer.byteLength(line, "latin1") < MAX_LINE_BYTES, line);
    }),
  );
});

test("property: foreign lines stay byte for byte and in place through any change of the map", () => {
  fc.assert(
    fc.property(cases, fc.array(entries, { maxLength: 4 }), ({ before, now, cap, user, added }, changes) => {
      const { managed, text } = fileOf({ before, user, newline: true });
      const first = applyLive(text, managed, select(now, cap));
      const behind = `10.9.9.9 marks.the.place\n${added.join("\n")}\n`;
      const place = first.length;
      let file = first + behind;
      for (const change of changes) {
        file = applyLive(file, managed, select(change, cap));
        assert.equal(file.slice(place, place + behind.length), behind);
      }
      assert.equal(removeLive(file, managed).trimEnd(), `${text}${behind}`.trimEnd());
    }),
  );
});

test("property: the result is the head followed by the result of the rest, for any order of lines", () => {
  fc.assert(
    fc.property(cases, fc.infiniteStream(fc.nat()), ({ before, now, cap, user, newline }, order) => {
      const { managed, text } = fileOf({ before, user, newline });
      const written = applyLive(text, managed, select(before, cap));
      const lines = written.split("\n").map((line) => ({ line, place: order.next().value % 8 }));
      const mixed = lines.sort((a, b) => a.place - b.place).map(({ line }) => line);
      const selected = select(now, cap);
      for (const file of [text, written, mixed.join("\n"), `${mixed.join("\n")}\n`]) {
        const head = headLength(file, liveAliases(managed), selected);
        assert.equal(
          file.slice(0, head) + applyLive(file.slice(head), managed, selected),
          applyLive(file, managed, selected),
        );
      }
    }),
  );
});
