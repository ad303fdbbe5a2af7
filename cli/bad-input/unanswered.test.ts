import { type BadInput, walk } from "#test/fakes/bad-input.ts";
import { addHolder, installed, NAMESPACE } from "#test/fakes/installed.ts";
import { json } from "#test/fakes/kube-api.ts";

// Commands that ask before they change anything, run where nobody can answer: in a script, a pipe or a job.

const SAYS =
  /switchback: there is no terminal to ask on: nothing was changed\. --yes answers the question in advance\n$/;
const web = { namespace: "shop", kind: "Deployment", name: "web", pods: 2, stale: 1, standing: "stuck" };
const stale = json({
  leader: true,
  identity: "c",
  warnings: [],
  targets: [],
  names: [],
  running: { workloads: [web], waiting: 0 },
});

function uninstalling(...flags: string[]): Pick<BadInput, "args" | "api" | "stdout"> {
  const server = installed();
  addHolder(server, "shop", "bare");
  return {
    args: ["uninstall", "-n", NAMESPACE, ...flags],
    api: server.respond,
    stdout: /^Addresses that the uninstall frees/,
  };
}

walk(
  "without an answer nothing is changed, and the exit code is 1:",
  [
    { what: "a yes for restart", args: ["restart", "shop/web"], api: stale, stdout: /1 of 2 pods/ },
    { what: "a yes for uninstall", ...uninstalling() },
    { what: "a yes for uninstall by force", ...uninstalling("--force") },
  ].map((each) => ({ ...each, input: "y\n", says: SAYS, code: 1 })),
);
