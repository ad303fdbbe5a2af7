import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Generator } from "./generator.ts";

const ENTRY = `import { executePlan } from "./doctor/probe/ask.ts";
executePlan(JSON.parse(process.argv[1])).then((result) => console.log(JSON.stringify(result)));`;

/** doctor/probe/program.ts: the probe as one text, for an image that has Node but not Switchback. */
export const probeProgram: Generator = {
  name: "probe-program",
  file: "doctor/probe/program.ts",
  render: async () => {
    const { outputFiles } = await build({
      stdin: { contents: ENTRY, resolveDir: fileURLToPath(new URL("../..", import.meta.url)) },
      bundle: true,
      format: "cjs",
      platform: "node",
      target: "node18",
      minify: true,
      legalComments: "none",
      charset: "ascii",
      write: false,
      logLevel: "warning",
    });
    // One line of Base64, so that neither quotes in the program nor a formatter can break it.
    const text = Buffer.from(outputFiles[0]?.text ?? "").toString("base64");
    return `// Made by \`npm run gen\` from ask.ts: do not edit.

/** The probe as a text for \`node -e\`, Node 18 or newer; the plan is its argument, the result its output. */
export const PROBE_PROGRAM = Buffer.from(
  "${text}",
  "base64",
).toString();
`;
  },
};
