import assert from "node:assert/strict";
import { test } from "node:test";
import { type Corefile, parseCorefile } from "./corefile.ts";
import { serverZones } from "./server-zones.ts";

function parsed(text: string): Corefile {
  const corefile = parseCorefile(text);
  assert.ok(typeof corefile !== "string", String(corefile));
  return corefile;
}

const keysOf = (text: string) => parsed(text).blocks.map(({ keys }) => keys);

test("parses server blocks, snippets, imports, comments, quotes and variables", () => {
  const { blocks, imports } = parsed(`# a comment with { and "
(snippet) {
  errors # not "quoted"
  log . "{combined} \\"{type}\\" # no comment"
}
import custom/*.server
a.test:53, b.test:53,
  dns://c.test {
  import snippet
  forward . {$UPSTREAM} 192.0.2.1 {
    max_concurrent 1000
    nested { inner }
  }
  hosts /etc/hosts a.test {
    fallthrough
  }
  import extra/*.override
}
.:53 { reload
}
`);
  assert.deepEqual(
    blocks.map(({ keys }) => keys),
    [[], ["a.test:53", "b.test:53", "dns://c.test"], [".:53"]],
  );
  assert.deepEqual(imports, ["custom/*.server"]);
  assert.deepEqual(
    blocks.map((block) => block.imports),
    [[], ["snippet", "extra/*.override"], []],
  );
  assert.deepEqual(blocks[1]?.directives, [
    { name: "forward", args: [".", "{$UPSTREAM}", "192.0.2.1"] },
    { name: "hosts", args: ["/etc/hosts", "a.test"] },
  ]);
  assert.deepEqual(blocks[0]?.directives[1]?.args, [".", '{combined} "{type}" # no comment']);
});

test("an empty file has no blocks, and a file with Windows line ends is parsed", () => {
  assert.deepEqual(keysOf("\n# nothing\n"), []);
  assert.deepEqual(keysOf(". {\r\n  errors\r\n}\r\n"), [["."]]);
});

for (const [what, text, why] of [
  ["no braces", ".:53\nerrors\n", /line 2: a server block without `\{`/],
  ["an open block", ".:53 {\n errors\n", /`\{` without `\}`/],
  ["an open block of a plugin", ".:53 {\n hosts {\n }\n", /`\{` without `\}`/],
  ["a brace too many", ".:53 {\n}\n}\n", /line 3: `\}` in place of a server block's name/],
  ["a brace in a plugin's line", ".:53 { errors }\n", /`\}` in the line of a plugin/],
  ["an open quotation", '.:53 {\n log "x\n}\n', /line 2: a quotation mark/],
  ["a comma at the end", "a.test, {\n}\n", /without a name/],
  ["no name", "{\n}\n", /without a name/],
  ["an import of nothing", "import\n.:53 {\n}\n", /an import of nothing/],
  ["an import of two", "import a b\n", /more than one pattern/],
  ["a name alone", "a.test", /without `\{`/],
] as const) {
  test(`refused: ${what}`, () => {
    const answer = parseCorefile(text);
    assert.ok(typeof answer === "string");
    assert.match(answer, why);
  });
}

test("zones: port, bind and reload of the root, and the zones of other blocks, except those with a view", () => {
  const zones = serverZones(
    parsed(`.:5353 {
  bind 192.0.2.10 192.0.2.11
  reload
  import custom/*.override
}
Stub.Test.:5353 other.test:53 tls://tls.test:5353 {
  errors
}
viewed.test:5353 {
  view one {
    expr true
  }
}
`),
  );
  assert.deepEqual(zones, {
    listen: { port: 5353, bind: ["192.0.2.10", "192.0.2.11"] },
    imports: ["custom/*.override"],
    taken: new Set(["", "stub.test"]),
    reloads: true,
  });
  assert.equal(serverZones(parsed("a.test {\n}\n")).listen, undefined);
});

test("parsing takes time linear in the bytes of a hostile file", () => {
  const size = 900_000;
  for (const text of [
    "{".repeat(size),
    "a ".repeat(size / 2),
    '"'.repeat(size),
    '"\\'.repeat(size / 2),
    "#".repeat(size),
    "import a\n".repeat(size / 9),
    `a {\n${"b {\n".repeat(size / 4)}`,
    "\n".repeat(size),
  ]) {
    const begun = performance.now();
    parseCorefile(text);
    assert.ok(performance.now() - begun < 2_000, `${text.slice(0, 10)}: ${performance.now() - begun} ms`);
  }
});
