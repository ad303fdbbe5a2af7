import fc from "fast-check";

// All property tests import fast-check from here. In CI, each run tries the same examples, so that a failure is caused
// by the change. On a developer's machine, each run tries other examples, and a failure prints its seed.

/** The value is arbitrary. */
const CI_SEED = 2026;

if (process.env.CI === "true") fc.configureGlobal({ seed: CI_SEED });

export { fc };

/**
 * Any text of whole characters. Equivalent to `fc.string({ unit: "binary" })`, which needs two seconds of CPU to make
 * a table of all characters.
 */
export function anyText(maxLength = 20) {
  const character = fc.integer({ min: 0, max: 0x10ffff }).map((code) => (isSurrogate(code) ? code - 0xd800 : code));
  return fc.array(character, { maxLength }).map((codes) => String.fromCodePoint(...codes));
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}
