import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { binary } from "../cluster/binaries.ts";
import { freePorts } from "../cluster/ports.ts";
import { type Component, Processes, until } from "../cluster/processes.ts";
import { query } from "../fakes/dns-message.ts";

export const LOCAL = "127.0.0.1";
const TRIES = 5;
const READY_SECONDS = 60;
/** A name that nobody has: an error is an answer, too. */
const ASKED_FIRST = "first.invalid";
const FIRST_MS = 2_000;

/** A CoreDNS of these tests. */
export interface CoreDns {
  readonly address: string;
  readonly port: number;
  readonly metricsPort: number;
  readonly process: Component;
}

/** Real CoreDNS processes on loopback, with a folder for their files. */
export class CoreDnsBed {
  readonly folder = mkdtempSync(join(tmpdir(), "switchback-dns-"));
  readonly #processes: Processes;
  readonly #running: Component[] = [];

  constructor() {
    mkdirSync(join(this.folder, "logs"));
    this.#processes = new Processes(this.folder, join(this.folder, "logs"));
  }

  /** Starts a server for `zones`, the text of each zone by its name. It refuses all other names. */
  async upstream(name: string, zones: Readonly<Record<string, string>>): Promise<CoreDns> {
    for (const [zone, text] of Object.entries(zones)) writeFileSync(join(this.folder, `${zone}zone`), text);
    return await this.start(name, ([port = 0, , readyPort = 0]) => {
      const files = Object.keys(zones).map(
        (zone) => `${zone}:${port} {\n bind ${LOCAL}\n file ${join(this.folder, `${zone}zone`)} ${zone}\n}`,
      );
      return `${files.join("\n")}\n.:${port} {\n bind ${LOCAL}\n ready ${LOCAL}:${readyPort}\n}\n`;
    });
  }

  /**
   * Starts a server with any Corefile. One of its server blocks must have the plugin `ready` at the given address.
   */
  async server(name: string, corefileOf: (port: number, ready: string) => string): Promise<CoreDns> {
    return await this.start(name, ([port = 0, , readyPort = 0]) => corefileOf(port, `${LOCAL}:${readyPort}`));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#running.map((process) => process.stop("SIGKILL")));
    await this.#processes.close(false);
  }

  /**
   * Starts a server with a Corefile for free ports: of DNS, `health`, `ready` and `prometheus`. `at` is the address
   * or port of DNS if the Corefile has another one. Tries again if another process takes a port before CoreDNS binds
   * it.
   */
  async start(
    name: string,
    corefileOf: (ports: readonly number[]) => string,
    at: Partial<Pick<CoreDns, "address" | "port">> = {},
  ): Promise<CoreDns> {
    const program = await binary("coredns");
    for (let tries = 1; ; tries += 1) {
      const ports = await freePorts(4);
      const corefile = join(this.folder, `${name}.Corefile`);
      writeFileSync(corefile, corefileOf(ports));
      const process = this.#processes.start(`${name}-${tries}`, program, ["-conf", corefile]);
      this.#running.push(process);
      const [port = 0, , readyPort = 0, metricsPort = 0] = ports;
      const server = { address: at.address ?? LOCAL, port: at.port ?? port, metricsPort, process };
      // CoreDNS reports that it is ready a moment before it binds the port of DNS.
      const answers = async () => (await saysReady(server, readyPort)) && (await answersAnything(server));
      try {
        await until(name, READY_SECONDS, async () => ((await answers()) ? undefined : "no answer"), process);
        return server;
      } catch (error) {
        if (tries === TRIES || process.exited === undefined) throw error;
      }
    }
  }
}

async function saysReady({ address }: CoreDns, port: number): Promise<boolean> {
  const response = await fetch(`http://${address}:${port}/ready`).catch(() => undefined);
  await response?.body?.cancel();
  return response?.ok === true;
}

function answersAnything(server: CoreDns): Promise<boolean> {
  return query(server, ASKED_FIRST, "A", { timeoutMs: FIRST_MS }).then(
    () => true,
    () => false,
  );
}
