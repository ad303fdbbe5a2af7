import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { installAddons } from "../addons/all.ts";
import { binary, Unavailable } from "../binaries.ts";
import { Cluster } from "../cluster.ts";
import { withLock } from "../lock.ts";
import { type Progress, progressLines } from "../progress.ts";
import { down } from "./down.ts";
import { toolEnv } from "./kubectl.ts";
import { ADMIN_KUBECONFIG, LOGS, STATE_FOLDER } from "./layout.ts";
import { NotHere } from "./requirements.ts";
import { inNamespace } from "./run.ts";
import { isUp, up } from "./up.ts";

const USAGE = "usage: npm run cluster:up | npm run cluster:down | npm run cluster:kubectl -- get pods -A";

const [command, ...args] = process.argv.slice(2);
try {
  process.exitCode = await main();
} catch (error) {
  const expected = error instanceof NotHere || error instanceof Unavailable;
  process.stderr.write(`${expected ? error.message : error instanceof Error ? error.stack : error}\n`);
  if (!expected && existsSync(LOGS)) process.stderr.write(`the logs of the components are in ${LOGS}\n`);
  process.exitCode = 1;
}

async function main(): Promise<number> {
  const progress = progressLines();
  const waiting = () => progress.status("waiting for another cluster:up or cluster:down");
  if (command === "up") {
    await withLock(`${STATE_FOLDER}.lock`, () => wholeCluster(progress), waiting);
    return 0;
  }
  if (command === "down") {
    if (process.getuid?.() !== 0) throw new NotHere("run it with sudo, as cluster:up");
    await withLock(`${STATE_FOLDER}.lock`, down, waiting);
    progress.say("the cluster is gone");
    return 0;
  }
  if (command === "kubectl") return await kubectlHere();
  process.stderr.write(`${USAGE}\n`);
  return 2;
}

async function wholeCluster(progress: Progress): Promise<void> {
  if (await isUp()) progress.say("the node is up already");
  else await up(progress);
  if (!args.includes("--bare")) await installAddons(new Cluster(), progress);
}

/** With this terminal's input and output, so that `exec -it` and `edit` work. */
async function kubectlHere(): Promise<number> {
  if (!existsSync(ADMIN_KUBECONFIG)) throw new NotHere("there is no cluster here: npm run cluster:up");
  const [program, all] = inNamespace("node", await binary("kubectl"), args);
  const child = spawn(program, all, { stdio: "inherit", env: { ...process.env, ...toolEnv() } });
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}
