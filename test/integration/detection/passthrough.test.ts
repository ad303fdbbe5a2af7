import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, it } from "node:test";
import { createServer } from "node:tls";
import { askRound } from "#proxy/detection/ask.ts";
import { whyNoDebian } from "../../cluster/debian.ts";
import { createTestCa } from "../../cluster/pki.ts";
import { debian, write } from "./debian.ts";
import { NAME, type Running, run, type Start } from "./software.ts";

// An ingress controller may pass through the TLS of the name in a ClientHello. Then the handshake is with a tenant's
// backend. No other name is sure to be answered: many controllers close a connection for a name nobody serves.

const HEADERS = ["accept-proxy", ""] as const;
type Mode = (typeof HEADERS)[number];
/**
 * Differs from the name that `run` asks for until HAProxy answers, because that handshake may reach the backend late.
 */
const ASKED = "asked.example.com";

const skip = whyNoDebian() ?? false;
const { cert, key } = createTestCa("detection").serving([NAME, ASKED]);
const backend = { names: [] as unknown[], data: [] as Buffer[], errors: [] as Error[] };
/** One promise per connection to the backend, which resolves when the connection is closed. */
let closings: Promise<unknown>[] = [];
const server = createServer({ cert, key }, (socket) => {
  socket.on("data", (chunk: Buffer) => backend.data.push(chunk)).on("error", (error) => backend.errors.push(error));
  if (socket.servername === NAME) return;
  backend.names.push(socket.servername);
  closings.push(new Promise((resolve) => socket.once("close", resolve)));
}).on("tlsClientError", (error) => backend.errors.push(error));
let running: Running<Mode> | undefined;

const start: Start<Mode> = async (modes, place) => {
  const { port } = server.address() as AddressInfo;
  const frontends = modes.map(
    ([accept, { http, tls }], index) => `frontend http${index}
  mode http
  bind 127.0.0.1:${http} ${accept}
  http-request return status 404
frontend tls${index}
  mode tcp
  bind 127.0.0.1:${tls} ${accept}
  tcp-request inspect-delay 5s
  tcp-request content accept if { req_ssl_hello_type 1 }
  use_backend tenant if { req_ssl_sni ${NAME} ${ASKED} }
`,
  );
  const text = `defaults
  timeout client 30s
  timeout server 30s
  timeout connect 5s
${frontends.join("")}backend tenant
  mode tcp
  server tenant 127.0.0.1:${port}
`;
  return [...(await debian("haproxy")), "-db", "-f", await write(place, text)];
};

before(async () => {
  if (skip) return;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  running = await run("haproxy", HEADERS, start);
});
after(async () => {
  await running?.stop();
  server.close();
});

for (const [mode, answer, handshakes] of [
  ["accept-proxy", "demands-either", 2],
  ["", "refuses-header", 1],
] as const) {
  it(`${answer}: a backend behind TLS passthrough sees handshakes, but no data`, { skip }, async () => {
    backend.names = [];
    closings = [];
    const port = running?.ports[mode].tls ?? 0;
    const round = await askRound({ host: "127.0.0.1", port, speaks: "tls", name: ASKED, agent: "test" });
    assert.equal(round.answer, answer, JSON.stringify(round.seen));
    while (backend.names.length < handshakes) await once(server, "secureConnection");
    await Promise.all(closings);
    assert.deepEqual(backend, { names: new Array(handshakes).fill(ASKED), data: [], errors: [] });
  });
}
