import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { EngineLimits, MakeEngine, RelayEngine, RelaySpec } from "./engine.ts";
import { parseHeader } from "./proxy-header-parse.ts";

const TIMEOUT_MS = 5000;
/** Large enough to use splice, the path of large transfers. */
const MESSAGE_BYTES = 512 * 1024;
const DECLARED_PORT = 443;

const LIMITS: EngineLimits = {
  maxConnections: 4,
  maxConnectionsPerSource: 4,
  connectTimeoutMs: TIMEOUT_MS,
  idleTimeoutMs: TIMEOUT_MS,
  halfClosedMs: TIMEOUT_MS,
  keepaliveMs: 0,
  firstBytesMs: 50,
  dropGraceMs: 0,
};

/**
 * Relays one message through an engine to an echo server on loopback.
 * Throws if the header or a byte of the echo is wrong, or after 5 s.
 */
export async function checkEngine(make: MakeEngine): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.on("error", () => {}).pipe(socket));
  const engine = make({ limits: LIMITS, log: silentLogger, onDial: () => {} });
  let timer: NodeJS.Timeout | undefined;
  try {
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`relayed nothing in ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
    });
    await Promise.race([relayOnce(engine, server), late]);
  } finally {
    clearTimeout(timer);
    await engine.close();
    server.close();
  }
}

async function relayOnce(engine: RelayEngine, server: Server): Promise<void> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await engine.start(planTo((server.address() as AddressInfo).port));
  const message = randomBytes(MESSAGE_BYTES);
  const client = connect({ host: "127.0.0.1", port: engine.listeners()[0]?.port ?? 0 });
  client.end(message);
  const chunks: Buffer[] = [];
  for await (const chunk of client) chunks.push(chunk as Buffer);
  const echo = Buffer.concat(chunks);
  const header = parseHeader(echo);
  if (header.status !== "complete" || header.header.endpoints?.destination.port !== DECLARED_PORT) {
    throw new Error("the header is wrong");
  }
  if (!echo.subarray(header.length).equals(message)) throw new Error("the message was not relayed unchanged");
}

function planTo(port: number): RelaySpec {
  const listener = {
    name: "check",
    target: "check",
    address: "127.0.0.1",
    port: 0,
    declaredPort: DECLARED_PORT,
    protocol: "v1",
    upstream: { addresses: ["127.0.0.1"], port },
  } as const;
  return { listeners: [listener], self: { interfaceAddresses: [], frontEndpoints: [] } };
}
