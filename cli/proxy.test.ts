import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { freePort, soon, Upstream } from "../proxy/conformance/rig.ts";
import { endOf, takeHeader } from "../proxy/conformance/streams.ts";

const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

/** The configuration of one target whose front port is 443. */
function configuration(upstreamPort: number, listenPort: number): string {
  return `
targets:
  - name: web
    upstream: {host: 127.0.0.1}
    ports: [{port: 443, upstreamPort: ${upstreamPort}, listenPort: ${listenPort}, protocol: v2}]
proxy: {address: 127.0.0.1, healthPort: 0, drainSeconds: 10}
`;
}

test("the process relays, and on SIGTERM lets a connection finish before it exits with 0", async () => {
  await using upstream = await Upstream.listen();
  const directory = await mkdtemp(join(tmpdir(), "switchback-"));
  const file = join(directory, "config.yaml");
  const listenPort = await freePort();
  await writeFile(file, configuration(upstream.port, listenPort));
  const child = spawn(process.execPath, [MAIN, "proxy", "--config", file], { stdio: ["ignore", "inherit", "pipe"] });
  const exited = once(child, "exit");
  try {
    const lines = createInterface({ input: child.stderr });
    await soon(saying(lines, "listening"), "the process to listen");
    const client = connect({ port: listenPort, host: "127.0.0.1", allowHalfOpen: true });
    client.write("question");
    const arrived = await upstream.next();
    assert.equal((await takeHeader(arrived)).version, 2);
    const stopping = saying(lines, "stopping");
    child.kill("SIGTERM");
    await soon(stopping, "the process to hear the signal");
    arrived.end("answer");
    client.end();
    assert.deepEqual(await endOf(client), { how: "FIN", bytes: Buffer.from("answer") });
    await endOf(arrived);
    assert.deepEqual(await soon(exited, "the process to end"), [0, null]);
  } finally {
    child.kill("SIGKILL");
    await rm(directory, { recursive: true });
  }
});

/** Until a line of the log has this message. */
function saying(lines: ReturnType<typeof createInterface>, message: string): Promise<void> {
  return new Promise((resolve) => {
    lines.on("line", (line) => {
      if ((JSON.parse(line) as { msg: string }).msg === message) resolve();
    });
  });
}
