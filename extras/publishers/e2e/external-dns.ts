import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { binary } from "#test/cluster/binaries.ts";
import { etcdFlags } from "#test/cluster/control-plane-files.ts";
import { type Component, Processes, until } from "#test/cluster/processes.ts";

const WAIT_SECONDS = 60;
const OWNER = "private-zone";

export interface ExternalDnsOptions {
  /** Where its etcd listens. */
  readonly address: string;
  /** Kubeconfig of its account. */
  readonly kubeconfig: string;
  /** The namespace whose DNSEndpoints it reads. */
  readonly namespace: string;
  readonly zone: string;
  /** Runs a command in another network namespace. */
  readonly within?: (command: string, args: string[]) => readonly [string, string[]];
}

/** A real external-dns with its own etcd. It writes records there in the form that CoreDNS' plugin `etcd` reads. */
export class ExternalDns {
  /** URL of the etcd, as in a Corefile. */
  readonly endpoint: string;
  readonly #options: ExternalDnsOptions;
  readonly #processes: Processes;
  readonly #folder: string;
  readonly #running: Component[] = [];

  private constructor(folder: string, options: ExternalDnsOptions) {
    this.endpoint = `http://${options.address}:2379`;
    this.#folder = folder;
    this.#options = options;
    this.#processes = new Processes(folder, folder);
  }

  /** Needs the definition of DNSEndpoint. */
  static async start(options: ExternalDnsOptions): Promise<ExternalDns> {
    const externalDns = new ExternalDns(await mkdtemp(join(tmpdir(), "switchback-external-dns-")), options);
    try {
      await externalDns.#start();
    } catch (error) {
      await externalDns.stop();
      throw error;
    }
    return externalDns;
  }

  async #start(): Promise<void> {
    const { address, kubeconfig, namespace, zone } = this.#options;
    const peer = `http://${address}:2380`;
    this.#run("etcd", await binary("etcd"), etcdFlags(join(this.#folder, "data"), this.endpoint, peer));
    await this.#until("its etcd to answer", async () => (await this.keys()).length === 0);
    const flags = {
      source: "crd",
      provider: "coredns",
      // TXT records that name the owner of a record stay in etcd forever (external-dns' pull request 6747). Here the
      // records themselves name their owner.
      registry: "noop",
      "txt-owner-id": OWNER,
      policy: "sync",
      "domain-filter": zone,
      namespace,
      kubeconfig,
      interval: "10s",
      "min-event-sync-interval": "1s",
      "metrics-address": "127.0.0.1:7979",
    };
    const args = [...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)];
    args.push("--coredns-strictly-owned", "--events");
    this.#run("external-dns", await binary("external-dns"), args, { ETCD_URLS: this.endpoint });
    await this.#until(
      "external-dns to be well",
      async () => (await this.#ask("http://127.0.0.1:7979/healthz")) === "OK",
    );
  }

  /** Keys that it has written, as paths. */
  async keys(): Promise<string[]> {
    const [key, range_end] = ["/skydns/", "/skydns0"].map((path) => Buffer.from(path).toString("base64"));
    const answer = await this.#ask(`${this.endpoint}/v3/kv/range`, JSON.stringify({ key, range_end, keys_only: true }));
    const { kvs = [] } = JSON.parse(answer) as { kvs?: Array<{ key: string }> };
    return kvs.map((kv) => Buffer.from(kv.key, "base64").toString());
  }

  async stop(): Promise<void> {
    for (const component of this.#running.reverse()) await component.stop("SIGKILL");
    await this.#processes.close(false);
  }

  #within(command: string, args: string[]): readonly [string, string[]] {
    return this.#options.within?.(command, args) ?? [command, args];
  }

  #run(name: string, command: string, args: string[], env?: Record<string, string>): void {
    const [program, all] = this.#within(command, args);
    this.#running.push(this.#processes.start(name, program, [...all], env));
  }

  async #ask(url: string, body?: string): Promise<string> {
    const options = body === undefined ? {} : { method: "POST", body };
    const source =
      `fetch(${JSON.stringify(url)}, ${JSON.stringify(options)}).then(async (r) => process.stdout.write(await ` +
      "r.text()))";
    const [program, args] = this.#within(process.execPath, ["-e", source]);
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
    const [answer, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
    if (code !== 0) throw new Error(`${url}: code ${code}`);
    return answer;
  }

  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    await until(what, WAIT_SECONDS, async () => ((await condition()) ? undefined : "not yet"), ...this.#running);
  }
}
