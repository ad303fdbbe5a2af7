import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { RelaySpec } from "../engine.ts";
import { soon, Upstream, until } from "./rig.ts";
import type { EngineName, Starved } from "./starved-engine.ts";

const CLIENTS = 60;

/**
 * Runs an engine in a process that may open few files, and brings it to this limit. Clients beyond the limit are
 * refused and none hangs. The engine logs this, and serves again when files are free. Runs with an even and an odd
 * number of files, because a connection takes two. In one of the two cases the engine accepts the last client and its
 * dial fails. In the other the system accepts no client.
 */
export async function outOfFiles(name: EngineName): Promise<void> {
  await using upstream = await Upstream.listen();
  upstream.server.on("connection", (socket) => socket.pipe(socket));
  let refused = 0;
  const lines: string[] = [];
  for (const files of [64, 65]) {
    const { child, state } = await start(name, upstream.port, files);
    try {
      const clients = await Promise.all(Array.from({ length: CLIENTS }, () => outcome(state.port)));
      const served = clients.filter((client) => client !== undefined);
      assert.ok(served.length >= 5, `${served.length} served with ${files} files`);
      assert.ok(served.length <= files / 2, `${served.length} served with ${files} files`);
      let now = state;
      // An engine's threads count at once; their log lines come later.
      await until(async () => {
        now = await ask(child);
        return now.refused === 0 || now.lines.length > 0;
      }, "the log line of a refusal");
      refused += now.refused;
      lines.push(...now.lines);
      for (const client of served) client.resetAndDestroy();
      let again: Socket | undefined;
      for (let tries = 0; tries < 100 && again === undefined; tries += 1) again = await outcome(state.port);
      assert.ok(again !== undefined, "serves again once files are free");
      again.destroy();
    } finally {
      const ended = once(child, "exit");
      child.disconnect();
      await ended;
    }
  }
  assert.ok(refused > 0);
  assert.ok(
    lines.some((line) => line.includes("file descriptors")),
    lines.join("\n"),
  );
}

async function start(
  name: EngineName,
  upstreamPort: number,
  files: number,
): Promise<{ child: ChildProcess; state: Starved }> {
  const plan: RelaySpec = {
    listeners: [
      {
        name: "target:443",
        target: "target",
        address: "127.0.0.1",
        port: 0,
        declaredPort: 443,
        protocol: "none",
        upstream: { addresses: ["127.0.0.1"], port: upstreamPort },
      },
    ],
    self: { interfaceAddresses: [], frontEndpoints: [] },
  };
  const script = fileURLToPath(new URL("./starved-engine.ts", import.meta.url));
  // This also sets the hard limit, because node raises its soft limit to the hard one.
  const command = `ulimit -n ${files} && exec "$@"`;
  const args = [process.execPath, script, name, JSON.stringify(plan)];
  const child = spawn("sh", ["-c", command, "sh", ...args], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const [state] = (await soon(once(child, "message"), "the engine's process to start")) as [Starved];
  return { child, state };
}

async function ask(child: ChildProcess): Promise<Starved> {
  const answer = once(child, "message");
  child.send("state");
  const [state] = (await soon(answer, "the engine's process to answer")) as [Starved];
  return state;
}

/** A client that has been served, or undefined if it was refused. Throws if it hangs. */
async function outcome(port: number): Promise<Socket | undefined> {
  const client = connect(port, "127.0.0.1");
  let over = false;
  let served = false;
  client.on("error", () => {});
  client.on("end", () => client.destroy());
  client.on("close", () => {
    over = true;
  });
  client.on("data", () => {
    served = true;
  });
  client.write("x");
  await until(() => served || over, "a client to be served or turned away");
  return served ? client : undefined;
}
