import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { describe, test } from "node:test";
import { freePort, pause, Upstream } from "#proxy/conformance/rig.ts";
import { digest, endOf, randomBytes, send, take } from "#proxy/conformance/streams.ts";
import { filesFolder } from "#test/fakes/cli.ts";
import { LONGEST_MS, RelayProcess } from "#test/fakes/relay-process.ts";

const MIB = 1024 * 1024;
/** More than the kernel's socket buffers on both sides of a relay hold together. */
const BEYOND_KERNEL = 64 * MIB;

interface Settings {
  readonly engine: "portable" | "linux";
  readonly drainSeconds: number;
  readonly workers?: number;
}

/** Starts `switchback proxy`, and waits until it listens. Returns it with the port of its only listener. */
async function startProxy({ engine, drainSeconds, workers = 0 }: Settings) {
  await using cleanup = new AsyncDisposableStack();
  const files = cleanup.adopt(filesFolder(), (folder) => folder.remove());
  const upstream = cleanup.use(await Upstream.listen());
  const port = await freePort();
  // The only target has the front port 443.
  const configuration = `
targets:
  - name: web
    upstream: {host: 127.0.0.1}
    ports: [{port: 443, upstreamPort: ${upstream.port}, listenPort: ${port}, protocol: v2}]
proxy: {address: 127.0.0.1, healthPort: 0, drainSeconds: ${drainSeconds}, engine: ${engine}, workers: ${workers}}
`;
  const args = ["proxy", "--config", await files.file("config.yaml", configuration)];
  const proxy = new RelayProcess(args, {}, { upstream, port }, cleanup.move());
  await proxy.says("listening").catch(async (error) => {
    await proxy[Symbol.asyncDispose]();
    throw error;
  });
  return Object.assign(proxy, { port });
}

/**
 * Resolves when every worker drains: a worker closes its listener first. The process counts only connections that end
 * after that.
 */
async function listensNoMore(port: number): Promise<void> {
  const listens = new RegExp(` 0100007F:${port.toString(16).toUpperCase().padStart(4, "0")} \\S+ 0A `);
  while (listens.test(await readFile("/proc/net/tcp", "latin1"))) await pause(5);
}

async function terminate(proxy: RelayProcess): Promise<void> {
  proxy.child.kill("SIGTERM");
  await proxy.says("stopping");
}

for (const engine of ["portable", "linux"] as const) {
  describe(`the process with the ${engine} engine`, { concurrency: true }, () => {
    test("on SIGTERM connections that finish get every byte, others are reset at the deadline; exit 0", async () => {
      await using proxy = await startProxy({ engine, drainSeconds: 10 });
      const [bulk, answer] = [randomBytes(BEYOND_KERNEL), randomBytes(MIB)];
      const stalled = await proxy.relayed("never reads");
      const silent = await proxy.relayed("");
      const dripping = await proxy.relayed("");
      const large = await proxy.relayed("download");
      void send(stalled.upstream, bulk).catch(() => {});
      const sent = send(large.upstream, bulk).then(() => large.upstream.end());
      const begun = await take(large.client, 100_000);
      dripping.client.write("0");

      await terminate(proxy);
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
  await using proxy = await startProxy({ engine: "linux", drainSeconds: 60, workers: 2 });
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
  await listensNoMore(proxy.port);
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
