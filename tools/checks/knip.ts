import type { KnipConfig } from "knip";

// `npm run exports`: knip finds files and exports that nothing imports. With `--production` it ignores the tests,
// and so finds what only they import.

const isProduction = process.argv.includes("--production");

const config: KnipConfig = {
  entry: [
    "cli/{main.ts,bin.js}!",
    // Loaded by path: a thread's script, the page's bundle, and files that npm's scripts and other processes start.
    "proxy/linux/worker.ts!",
    "extras/*/page/main.tsx!",
    "tools/{*/main,checks/{line-lengths,weight},bench/mount}.ts!",
    "tools/bench/webhook/server.ts!",
    "**/*.test.ts",
    "extras/*/integration/{attacks,metrics}.ts",
    "test/cluster/build-ahead.ts",
    "test/e2e/programs/*.ts",
    "extras/*/fakes/surfaces.ts",
    "{extras/agent,test}/fakes/{confined-program,elector}.ts",
  ],
  project: [
    "**/*.{ts,tsx,js}!",
    "!**/*.test.ts!",
    "!**/{conformance,fakes,integration,e2e}/**!",
    "!{test,tools/mutants}/**!",
  ],
  // Loaded by `require.resolve`.
  ignoreDependencies: ["axe-core"],
  // An export that its own file uses may exist for a test.
  ignoreExportsUsedInFile: isProduction,
  exclude: ["binaries", "duplicates"],
};
export default config;
