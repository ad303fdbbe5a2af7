import { connect } from "#lib/kube/connect.ts";
import { runElection } from "#lib/kube/lease.ts";
import { silentLogger } from "#lib/telemetry/log.ts";

// A process that contends for a Lease and reports its state on standard output, until standard input ends. Arguments:
// kubeconfig, namespace, name of the Lease, identity. Lines: `<epoch ms> started|aborted|<reason>|tick`. A tick means
// that the process leads.

const [kubeconfig = "", namespace = "", name = "", identity = ""] = process.argv.slice(2);
const say = (what: string) => process.stdout.write(`${Date.now()} ${what}\n`);

const client = await connect({ kubeconfig });
const election = runElection({
  client,
  namespace,
  name,
  identity,
  leaseSeconds: 4,
  renewDeadlineSeconds: 2.5,
  retrySeconds: 0.5,
  onStartedLeading: (signal) => {
    say("started");
    signal.addEventListener("abort", () => say("aborted"));
  },
  log: { ...silentLogger, info: (fields) => "code" in fields && say(String(fields.code)) },
});
const ticks = setInterval(() => {
  if (election.leading) say("tick");
}, 20);
process.stdin.resume();
process.stdin.on("end", async () => {
  await election.stop();
  clearInterval(ticks);
  client.close();
});
