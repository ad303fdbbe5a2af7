import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import { reclaimConnections } from "./connection-reclaimer.ts";

const MAX = 9;
const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const POST = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";

interface Client {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  /** Sends a request, by default `GET`; resolves with the status line. */
  ask(request?: string): Promise<string>;
}

/** Connects clients one by one. Each connects after the server has accepted the previous one. */
async function start(t: TestContext, listener: RequestListener = (_req, res) => res.end("ok")) {
  const server = createServer();
  const reclaimed = reclaimConnections(server, MAX, listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const open = async (): Promise<Client> => {
    const accepted = once(server, "connection");
    const socket = connect({ port, host: "127.0.0.1" });
    t.after(() => socket.destroy());
    socket.on("error", () => {});
    const closed = once(socket, "close");
    await accepted;
    return {
      socket,
      closed,
      async ask(request = GET) {
        socket.write(request);
        const [chunk] = await Promise.race([once(socket, "data"), closed.then(() => ["closed"])]);
        return String(chunk).split("\r\n", 1)[0] ?? "";
      },
    };
  };
  return { open, reclaimed, server };
}

/** A server that holds a POST. `arrived` resolves with the function that answers it. */
async function startHolding(t: TestContext) {
  const { promise: arrived, resolve } = Promise.withResolvers<() => void>();
  const listener: RequestListener = (req, res) => (req.method === "POST" ? resolve(() => res.end()) : res.end());
  return { ...(await start(t, listener)), arrived };
}

const several = async (count: number, open: () => Promise<Client>): Promise<Client[]> => {
  const clients: Client[] = [];
  for (let opened = 0; opened < count; opened += 1) clients.push(await open());
  return clients;
};

test("silent connections replace each other: used ones stay, new ones are served, even of one address", async (t) => {
  const { open } = await start(t);
  const used = await open();
  assert.equal(await used.ask(), "HTTP/1.1 200 OK");
  const silent = await several(4 * MAX, open);
  await Promise.all(silent.slice(0, -MAX + 1).map(({ closed }) => closed));
  assert.equal(await used.ask(), "HTTP/1.1 200 OK");
  const [fresh] = await several(1, open);
  assert.equal(await fresh?.ask(), "HTTP/1.1 200 OK");
  assert.equal(await used.ask(), "HTTP/1.1 200 OK");
});

test("of many answered connections, the one whose last request is the oldest is closed for a new one", async (t) => {
  const { open } = await start(t);
  const answered = await several(MAX, open);
  for (const client of answered) assert.equal(await client.ask(), "HTTP/1.1 200 OK");
  assert.equal(await answered[0]?.ask(), "HTTP/1.1 200 OK");
  const fresh = await open();
  await answered[1]?.closed;
  assert.equal(await fresh.ask(), "HTTP/1.1 200 OK");
  assert.equal(await answered[0]?.ask(), "HTTP/1.1 200 OK");
});

test("an idle connection is closed before one whose request has been in flight for longer", async (t) => {
  const { open, arrived } = await startHolding(t);
  const asking = await open();
  assert.equal(await asking.ask(), "HTTP/1.1 200 OK");
  const late = asking.ask(POST);
  const answer = await arrived;
  const idle = await several(MAX - 1, open);
  for (const client of idle) assert.equal(await client.ask(), "HTTP/1.1 200 OK");
  await open();
  await Promise.race([idle[0]?.closed, asking.closed]);
  answer();
  assert.equal(await late, "HTTP/1.1 200 OK");
});

/** Reports connections of one address as the handshake queue does, on a server that only accepts them. */
function queued() {
  const server = new EventEmitter();
  const reclaimed = reclaimConnections(server as Server, MAX, () => {});
  let remotePort = 0;
  const accept = (): Socket => {
    remotePort += 1;
    const socket = Object.assign(new PassThrough(), { remoteAddress: "127.0.0.1", remotePort }) as unknown as Socket;
    server.emit("connection", socket);
    return socket;
  };
  const wait = (count: number) =>
    Array.from({ length: count }, () => {
      const socket = accept();
      reclaimed.reach("waiting", socket);
      return socket;
    });
  const secure = ({ remoteAddress, remotePort }: Socket): void => {
    server.emit("secureConnection", Object.assign(new PassThrough(), { remoteAddress, remotePort }));
  };
  return { reclaimed, accept, wait, secure };
}

test("connections that wait for the server are not closed before TLS begins", () => {
  const { reclaimed, accept, wait } = queued();
  const waiting = wait(4 * MAX);
  const silent = Array.from({ length: MAX }, accept);
  const all = [...waiting, ...silent];
  assert.deepEqual(
    all.filter(({ destroyed }) => destroyed),
    [],
  );
  for (const socket of waiting) reclaimed.reach("begun", socket);
  assert.equal(all.filter(({ destroyed }) => !destroyed).length, MAX);
  assert.equal(waiting.at(-1)?.destroyed, false, "the newest stays");
});

test("of connections without an answer, the one whose handshake ended the longest ago is closed", () => {
  const { reclaimed, accept, wait, secure } = queued();
  const [first, ...others] = wait(MAX);
  for (const socket of [first, ...others]) if (socket !== undefined) reclaimed.reach("begun", socket);
  if (first !== undefined) secure(first);
  accept();
  assert.deepEqual([first?.destroyed, others[0]?.destroyed, others[1]?.destroyed], [false, true, false]);
});

test("a connection that has closed takes no place, even if its handshake ends later", async () => {
  const { reclaimed, accept, wait, secure } = queued();
  const all = wait(MAX);
  for (const socket of all) reclaimed.reach("begun", socket);
  const gone = all.pop();
  if (gone !== undefined) {
    await once(gone.destroy(), "close");
    reclaimed.reach("begun", gone);
    secure(gone);
  }
  accept();
  assert.deepEqual(
    all.filter(({ destroyed }) => destroyed),
    [],
  );
});

test("a refused request does not count as progress", async (t) => {
  const { open } = await start(t, (req, res) => {
    res.statusCode = req.headers.host === "x" ? 200 : 404;
    res.end();
  });
  const used = await several(4, open);
  for (const client of used) await client.ask();
  const refused = await several(MAX - 4, open);
  for (const { socket } of refused) {
    socket.write("GET / HTTP/1.1\r\nHost: y\r\n\r\n");
    await once(socket, "data");
  }
  await open();
  await refused[0]?.closed;
  for (const client of used) assert.equal(await client.ask(), "HTTP/1.1 200 OK");
});

test("closed connections free their places", async (t) => {
  const { open } = await start(t);
  const used = await open();
  await used.ask();
  for (let times = 0; times < 3 * MAX; times += 1) {
    const gone = await open();
    await gone.ask();
    gone.socket.destroy();
    await gone.closed;
  }
  assert.equal(await used.ask(), "HTTP/1.1 200 OK");
});

test("connections may be silent for two minutes, before and after a request", async (t) => {
  const { server } = await start(t);
  assert.deepEqual([server.headersTimeout, server.keepAliveTimeout], [120_000, 120_000]);
});

test("a server that closes leaves only the connection whose request is not answered yet", async (t) => {
  const { open, reclaimed, server, arrived } = await startHolding(t);
  const [silent, used, asking] = (await several(3, open)) as [Client, Client, Client];
  await used.ask();
  const late = asking.ask(POST);
  const answer = await arrived;
  server.close();
  reclaimed.closeUnasked();
  await Promise.all([silent.closed, used.closed]);
  answer();
  assert.equal(await late, "HTTP/1.1 200 OK");
});
