import fc from "fast-check";

// fast-check as all property tests import it. In CI each run tries the same examples, so that a failure is due to the
// change. On a person's machine each run tries others, and a failure prints its seed.

/** Any number. */
const CI_SEED = 2026;

if (process.env.CI === "true") fc.configureGlobal({ seed: CI_SEED });

export { fc };

/**
 * Any text of whole characters, as `fc.string({ unit: "binary" })`, which needs two seconds of CPU to make a table of
 * all of them.
 */
export function anyText(maxLength = 20) {
  const character = fc.integer({ min: 0, max: 0x10ffff }).map((code) => (isSurrogate(code) ? code - 0xd800 : code));
  return fc.array(character, { maxLength }).map((codes) => String.fromCodePoint(...codes));
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}
