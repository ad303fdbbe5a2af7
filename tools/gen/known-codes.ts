import { codeParts } from "./codes-page.ts";
import type { Generator } from "./generator.ts";

/** cli/dump/known-codes.ts: the codes that a redacted dump keeps. */
export const knownCodes: Generator = {
  name: "known-codes",
  file: "cli/dump/known-codes.ts",
  render: async () => {
    const rows = [...codeParts().values()].flatMap((part) => part.rows);
    const codes = new Set(rows.flatMap((row) => row.codes));
    return `// Made by \`npm run gen\` from the files codes.md beside the code: do not edit.

/** All reason codes. */
export const KNOWN_CODES =
  "${[...codes].sort().join(",")}";
`;
  },
};
