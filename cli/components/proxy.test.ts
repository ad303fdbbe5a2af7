import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, pause, Upstream } from "#proxy/conformance/rig.ts";
import { digest, endOf, randomBytes, send, take, takeHeader } from "#proxy/conformance/streams.ts";
import { killChild } from "#test/processes.ts";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));
const LOSE_WORKER = new URL("../../test/fakes/lose-worker.ts", import.meta.url).href;
const MIB = 1024 * 1024;
/** Longest time that anything in these tests may take, including drains. */
const LONGEST_MS = 120_000;
/** More than the kernel's socket buffers on both sides of a relay hold together. */
const BEYOND_KERNEL = 64 * MIB;

interface Settings {
  readonly engine: "portable" | "linux";
  readonly drainSeconds: number;
  readonly workers?: number;
}

interface LogLine {
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** `switchback proxy` as a separate process, in front of an upstream that the test controls. */
class ProxyProcess {
  readonly upstream: Upstream;
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly #port: number;
  readonly #directory: string;
  readonly #clients: Socket[] = [];
  /** Rejects once the process has ended and its log is read. */
  readonly #silent: Promise<never>;
  readonly #lines: LogLine[] = [];
  readonly #waiting = new Set<(line: LogLine) => void>();

  private constructor(upstream: Upstream, port: number, directory: string) {
    this.upstream = upstream;
    this.#port = port;
    this.#directory = directory;
    const args = ["--import", LOSE_WORKER, MAIN, "proxy", "--config", join(directory, "config.yaml")];
    this.child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "pipe"] });
    const signal = AbortSignal.timeout(LONGEST_MS);
    this.exited = once(this.child, "exit", { signal });
    this.exited.catch(() => {});
    // The process's last log lines arrive after it has exited.
    this.#silent = once(this.child, "close", { signal }).then(() => {
      throw new Error("the process has ended");
    });
    this.#silent.catch(() => {});
    if (this.child.stderr === null) throw new Error("no standard error");
    createInterface({ input: this.child.stderr }).on("line", (line) => {
      const parsed = line.startsWith("{") ? (JSON.parse(line) as LogLine) : { msg: line };
      this.#lines.push(parsed);
      for (const take of this.#waiting) take(parsed);
    });
  }

  static async start({ engine, drainSeconds, workers = 0 }: Settings): Promise<ProxyProcess> {
    const upstream = await Upstream.listen();
    const directory = await mkdtemp(join(tmpdir(), "switchback-"));
    const port = await freePort();
    // The only target has the front port 443.
    const configuration = `
targets:
  - name: web
    upstream: {host: 127.0.0.1}
    ports: [{port: 443, upstreamPort: ${upstream.port}, listenPort: ${port}, protocol: v2}]
proxy: {address: 127.0.0.1, healthPort: 0, drainSeconds: ${drainSeconds}, engine: ${engine}, workers: ${workers}}
`;
    await writeFile(join(directory, "config.yaml"), configuration);
    await using cleanup = new AsyncDisposableStack();
    const proxy = cleanup.use(new ProxyProcess(upstream, port, directory));
    await proxy.says("listening");
    cleanup.move();
    return proxy;
  }

  /** Connects a client that sends `first`. Returns it and its upstream connection, whose header is already read. */
  async relayed(first: string): Promise<{ client: Socket; upstream: Socket }> {
    const client = connect({ port: this.#port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    client.on("error", () => {});
    this.#clients.push(client);
    if (first.length > 0) client.write(first);
    const upstream = await this.upstream.next();
    assert.equal((await takeHeader(upstream)).version, 2);
    return { client, upstream };
  }

  /** The first log line with this message, already logged or still to come. Rejects if the process ends without it. */
  async says(message: string): Promise<LogLine> {
    const there = this.#lines.find(({ msg }) => msg === message);
    if (there !== undefined) return there;
    const { promise, resolve } = Promise.withResolvers<LogLine>();
    const take = (line: LogLine) => line.msg === message && resolve(line);
    this.#waiting.add(take);
    try {
      return await Promise.race([promise, this.#silent]);
    } catch (cause) {
      throw new Error(`gave up waiting for "${message}"; it said ${JSON.stringify(this.#lines)}`, { cause });
    } finally {
      this.#waiting.delete(take);
    }
  }

  /**
   * Resolves when every worker drains: a worker closes its listener first. The process counts only connections that
   * end after that.
   */
  async listensNoMore(): Promise<void> {
    const listens = new RegExp(` 0100007F:${this.#port.toString(16).toUpperCase().padStart(4, "0")} \\S+ 0A `);
    while (listens.test(await readFile("/proc/net/tcp", "latin1"))) await pause(5);
  }

  async terminate(): Promise<void> {
    this.child.kill("SIGTERM");
    await this.says("stopping");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.destroy();
    await killChild(this.child);
    await this.upstream[Symbol.asyncDispose]();
    await rm(this.#directory, { recursive: true });
  }
}

for (const engine of ["portable", "linux"] as const) {
  describe(`the process with the ${engine} engine`, { concurrency: true }, () => {
    test("relays, and on SIGTERM lets a connection finish before it exits with 0", async () => {
      await using proxy = await ProxyProcess.start({ engine, drainSeconds: 60 });
      const { client, upstream } = await proxy.relayed("question");
      await proxy.terminate();
      upstream.end("answer");
      client.end();
      assert.deepEqual(await endOf(client), { how: "FIN", bytes: Buffer.from("answer") });
      await endOf(upstream);
      assert.deepEqual(await proxy.exited, [0, null]);
    });

    test("on SIGTERM connections that finish get every byte, others are reset at the deadline; exit 0", async () => {
      await using proxy = await ProxyProcess.start({ engine, drainSeconds: 10 });
      const [bulk, answer] = [randomBytes(BEYOND_KERNEL), randomBytes(MIB)];
      const stalled = await proxy.relayed("never reads");
      const silent = await proxy.relayed("");
      const dripping = await proxy.relayed("");
      const large = await proxy.relayed("download");
      void send(stalled.upstream, bulk).catch(() => {});
      const sent = send(large.upstream, bulk).then(() => large.upstream.end());
      const begun = await take(large.client, 100_000);
      dripping.client.write("0");

      await proxy.terminate();
      const resets = Promise.all([silent.client, silent.upstream, stalled.upstream].map(resetOf));
      const drips = drip(dripping.client, "123456789".repeat(5));
      const [atUpstream, atClient] = await Promise.all([endOf(dripping.upstream), endOf(large.client), drips, sent]);
      assert.deepEqual(atUpstream, { how: "FIN", bytes: Buffer.from(`0${"123456789".repeat(5)}`) });
      dripping.upstream.end(answer);
      assert.equal(digest((await endOf(dripping.client)).bytes), digest(answer));
      assert.equal(digest(Buffer.concat([begun, atClient.bytes])), digest(bulk));
      large.client.end();

      assert.deepEqual(await resets, ["ECONNRESET", "ECONNRESET", "ECONNRESET"]);
      const { finished, reset } = await proxy.says("drained");
      assert.deepEqual({ finished, reset }, { finished: 2, reset: 2 });
      assert.deepEqual(await proxy.exited, [0, null]);
    });
  });
}

test("when a worker dies, the transfers of the other worker finish, then the process exits with 1", async () => {
  await using proxy = await ProxyProcess.start({ engine: "linux", drainSeconds: 60, workers: 2 });
  // The kernel spreads the connections over both workers.
  const relayed = [];
  for (let count = 0; count < 20; count += 1) relayed.push(await proxy.relayed("download"));
  const [first, rest] = [randomBytes(100_000), randomBytes(2 * MIB)];
  for (const { client, upstream } of relayed) {
    upstream.write(first);
    await take(client, 1000);
  }
  proxy.child.kill("SIGUSR2");
  await proxy.says("a relay worker died");
  await proxy.listensNoMore();
  const endings = relayed.map(async ({ client, upstream }) => {
    client.end();
    const sent = send(upstream, rest).then(() => upstream.end());
    const ending = await endOf(client);
    if (ending.how !== "FIN") return ending.how;
    await sent;
    assert.equal(digest(ending.bytes), digest(Buffer.concat([first.subarray(1000), rest])));
    return ending.how;
  });
  const finished = (await Promise.all(endings)).filter((how) => how === "FIN").length;
  assert.ok(finished > 0 && finished < relayed.length, `${finished} of ${relayed.length} transfers finished`);
  assert.deepEqual(await proxy.exited, [1, null]);
  assert.deepEqual((await proxy.says("drained")).finished, finished);
});

/** How a socket ends, if it is read for as long as a drain may take. */
async function resetOf(socket: Socket): Promise<string> {
  socket.resume();
  const [error] = await once(socket, "error", { signal: AbortSignal.timeout(LONGEST_MS) }).catch((error) => [error]);
  return (error as NodeJS.ErrnoException).code ?? String(error);
}

/** Writes byte by byte, each in its own segment, and ends. */
async function drip(socket: Socket, text: string): Promise<void> {
  for (const byte of text) {
    socket.write(byte);
    await pause(10);
  }
  socket.end();
}
