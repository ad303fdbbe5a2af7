import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchemaWith } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { listSettings } from "#lib/config/settings.ts";
import { validate } from "#lib/errors/validation.ts";

/** The least and the greatest value of each numeric setting. */
export type Limits = Readonly<Record<string, readonly [least: number | "above 0", greatest: number | undefined]>>;
/** Accepted and refused values of each text setting. */
export type Texts = Readonly<Record<string, readonly [good: readonly unknown[], bad: readonly unknown[]]>>;

/** Tests the settings of the core. With `sections`, tests only an extra's settings. */
export function testSettings(limits: Limits, texts: Texts, sections: readonly Section[] = []): void {
  const schema = configSchemaWith(sections);
  /** Whether the section of a setting accepts a value. Rules about several settings do not apply. */
  const accepts = (path: string, value: unknown): boolean => {
    const keys = path.split(".");
    const document = keys.reduceRight((inner, key) => ({ [key]: inner }), value);
    return validate(schema, document).flaws.length === 0;
  };
  const core = new Set(sections.length === 0 ? [] : listSettings().map(({ path }) => path));

  test("every numeric setting has limits here", () => {
    const numbers = listSettings(sections).filter(({ type }) => type === "integer" || type === "number");
    assert.deepEqual(
      numbers.map(({ path }) => path).filter((path) => !core.has(path)),
      Object.keys(limits),
    );
  });

  for (const [path, [least, greatest]] of Object.entries(limits)) {
    test(`${path} is ${least} to ${greatest ?? "any number"}`, () => {
      if (least === "above 0") {
        assert.deepEqual([accepts(path, 0), accepts(path, 0.5)], [false, true]);
      } else {
        assert.deepEqual(
          [accepts(path, least), accepts(path, least - 0.01), accepts(path, least - 1)],
          [true, false, false],
        );
      }
      if (greatest === undefined) assert.equal(accepts(path, 1_000_000_000), true);
      else assert.deepEqual([accepts(path, greatest), accepts(path, greatest + 1)], [true, false]);
    });
  }

  for (const [path, [good, bad]] of Object.entries(texts)) {
    test(`${path} accepts and refuses the listed values`, () => {
      for (const value of good) assert.equal(accepts(path, value), true, JSON.stringify(value));
      for (const value of bad) assert.equal(accepts(path, value), false, JSON.stringify(value));
    });
  }
}
