import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { binary } from "../binaries.ts";
import { NotHere } from "../not-here.ts";
import { progressLines } from "../progress.ts";
import { wholeCluster, withMachine } from "../whole.ts";
import { down } from "./down.ts";
import { toolEnv } from "./kubectl.ts";
import { ADMIN_KUBECONFIG, LOGS, TWO_NODES } from "./layout.ts";
import { requireRoot } from "./requirements.ts";
import { inNamespace } from "./run.ts";

const USAGE =
  "usage: npm run cluster:up [-- --network-policies | --dual-stack | --ipv6 | --nodes 2] | " +
  "npm run cluster:down | npm run cluster:kubectl -- get pods -A";

const [command, ...args] = process.argv.slice(2);
try {
  process.exitCode = await main();
} catch (error) {
  const expected = error instanceof NotHere;
  process.stderr.write(`${expected ? error.message : error instanceof Error ? error.stack : error}\n`);
  if (!expected && existsSync(LOGS)) process.stderr.write(`the logs of the components are in ${LOGS}\n`);
  process.exitCode = 1;
}

async function main(): Promise<number> {
  const progress = progressLines();
  const flags = new Set(args);
  const networkPolicies = flags.delete("--network-policies");
  // layout.ts reads these flags.
  for (const flag of ["--dual-stack", "--ipv6"]) flags.delete(flag);
  if (TWO_NODES && flags.delete("--nodes")) flags.delete("2");
  if (command === "up" && flags.size === 0) {
    const { fresh } = await wholeCluster(progress, { networkPolicies });
    if (!fresh) progress.say("the node was up already");
    return 0;
  }
  if (command === "down" && args.length === 0) {
    await withMachine(progress, down);
    progress.say("the cluster is gone");
    return 0;
  }
  if (command === "kubectl") return await kubectlHere();
  process.stderr.write(`${USAGE}\n`);
  return 2;
}

/** Runs kubectl with this terminal's input and output, so that `exec -it` and `edit` work. */
async function kubectlHere(): Promise<number> {
  requireRoot();
  if (!existsSync(ADMIN_KUBECONFIG)) throw new NotHere("there is no cluster here: npm run cluster:up");
  const [program, all] = inNamespace("node", await binary("kubectl"), args);
  const child = spawn(program, all, { stdio: "inherit", env: { ...process.env, ...toolEnv() } });
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
