import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { findingsOf } from "#doctor/findings.ts";
import { printableLines } from "#lib/errors/printable.ts";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { FORMATS } from "./command.ts";
import { doctorReport } from "./doctor.ts";
import { type Format, type Report, render } from "./formats.ts";
import { statusReport } from "./status.ts";

const HOSTILE = "a\u001b[2J\u009b\u202e\u{e0001}: #x\nnext";
const warning = { code: "in-cluster-name", text: HOSTILE };
const HOLD = { id: "1", since: 1, until: 2, names: 3, of: 4 };
const FULL = fullStatus(
  { names: [{ ...NAME, warning }, REFUSED], hold: HOLD },
  {
    unknown: "why",
    underWay: "shop/Deployment/web",
    workloads: [{ ...WORKLOAD, lastRestart: "2026-01-01T00:00:00Z", warnings: [warning, warning] }],
  },
);
const { ok, broken } = findingsOf("pods");
const FINDINGS = [
  broken("Pod shop/web", "stale", HOSTILE, `restart ${"it ".repeat(30)}`),
  broken("Pod shop/api", "stale", "-"),
  ok("x", "y", "z"),
];

const REPORTS: readonly [string, Report][] = [
  ["status", statusReport({ full: FULL, now: 0 }, {})],
  ["doctor", doctorReport(FINDINGS)],
];

for (const [command, report] of REPORTS) {
  const print = async (format: Format) => await render(format, report);

  describe(`the formats of ${command}`, () => {
    it("json and yaml hold the same document, with every value from tenants, and are printable", async () => {
      // Escaped, as the output does.
      const json = printableLines(await print("json"));
      const yaml = await print("yaml");
      assert.equal(printableLines(yaml), yaml);
      assert.deepEqual(parse(yaml), JSON.parse(json));
      assert.deepEqual(JSON.parse(json), JSON.parse(JSON.stringify(report.document)));
      assert.ok(JSON.stringify(report.document).includes("\u202e"));
      assert.doesNotMatch(yaml, /[&*]a\d/, "no anchors");
    });

    it("json begins with a brace, and each format ends with one line feed", async () => {
      for (const format of FORMATS) assert.match(await print(format), /[^\n]\n$/, format);
      assert.match(await print("json"), /^\{\n {2}/);
    });
  });
}

describe("-o name", () => {
  it("of status prints hostnames and workloads, as other commands take them", async () => {
    const text = await render("name", statusReport({ full: FULL, now: 0 }, {}));
    assert.equal(text, "a.example.com\nb.example.com\ncert-manager/Deployment/cert-manager\n");
  });

  it("of doctor prints each finding once, as words that never change", async () => {
    assert.equal(await render("name", doctorReport(FINDINGS)), "broken/pods/stale\nok/pods/y\n");
  });

  it("prints one name per line, whatever name a tenant chooses", async () => {
    const odd = fullStatus({ names: [{ ...REFUSED, name: "a\n\u001b[31mb" }] });
    assert.equal(await render("name", statusReport({ full: odd, now: 0 }, {})), "a\\u000a\\u001b[31mb\n");
  });
});

describe("the document of status", () => {
  it("has no field that docs/status.md does not describe", async () => {
    const page = await readFile(new URL("../docs/status.md", import.meta.url), "utf8");
    const [, fields = ""] = page.split("## The document");
    const described = new Set([...fields.matchAll(/`(?:\w+\.)?(\w+)(?:\[\])?`/g)].map(([, name]) => name));
    const used = new Set<string>();
    JSON.stringify(FULL, (key, value) => {
      if (key !== "" && !/^\d+$/.test(key)) used.add(key);
      return value;
    });
    assert.ok(used.size > 40, `${used.size}`);
    assert.deepEqual(
      [...used].filter((name) => !described.has(name)),
      [],
    );
  });
});
