import fc from "fast-check";

// fast-check as all property tests import it. In CI each run tries the same examples, so that a failure is due to the
// change. On a person's machine each run tries others, and a failure prints its seed.

/** Any number. */
const CI_SEED = 2026;

if (process.env.CI === "true") fc.configureGlobal({ seed: CI_SEED });

export { fc };
