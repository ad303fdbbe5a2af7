import { EventEmitter } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import type { TestContext } from "node:test";

/** A socket that connects, fails and receives data when the test says so. It records what the code does to it. */
export class FakeNetSocket extends EventEmitter {
  readonly options: object;
  readonly calls: string[] = [];
  destroyed = false;
  writableEnded = false;
  writableFinished = false;
  writableLength = 0;
  remoteAddress: string | undefined = "192.0.2.7";
  remotePort: number | undefined = 51_234;
  localAddress: string | undefined = "198.51.100.9";

  constructor(options: object = {}) {
    super();
    this.options = options;
  }

  write(bytes: Buffer): boolean {
    this.calls.push(`write ${bytes}`);
    return true;
  }

  end(): this {
    return this.#note("end");
  }

  pause(): this {
    return this;
  }

  resume(): this {
    return this;
  }

  destroy(): this {
    this.destroyed = true;
    return this.#note("destroy");
  }

  resetAndDestroy(): this {
    this.destroyed = true;
    return this.#note("reset");
  }

  say(text: string): void {
    this.emit("data", Buffer.from(text));
  }

  fail(code: string): void {
    this.emit("error", Object.assign(new Error(`connect ${code}`), { code }));
  }

  #note(call: string): this {
    this.calls.push(call);
    return this;
  }
}

/** A server that listens on the requested port, unless the port is in `taken`. */
export class FakeNetServer extends EventEmitter {
  readonly #taken: ReadonlySet<number>;
  port: number | undefined;

  constructor(taken: ReadonlySet<number>) {
    super();
    this.#taken = taken;
  }

  listen({ port }: { port: number }): this {
    process.nextTick(() => {
      if (this.#taken.has(port))
        this.emit("error", Object.assign(new Error("listen EADDRINUSE"), { code: "EADDRINUSE" }));
      else {
        this.port = port;
        this.emit("listening");
      }
    });
    return this;
  }

  address(): object {
    return { address: "127.0.0.1", port: this.port };
  }

  close(): this {
    this.port = undefined;
    return this;
  }
}

/** Makes net.createServer() return fake servers that the test controls. Returns them in the order of their creation. */
export function fakeServers(t: TestContext, taken: ReadonlySet<number> = new Set()): FakeNetServer[] {
  const servers: FakeNetServer[] = [];
  t.mock.method(net, "createServer", () => {
    const server = new FakeNetServer(taken);
    servers.push(server);
    return server;
  });
  inEveryImport(t);
  return servers;
}

/** Makes net.connect() return fake sockets that the test controls. Returns them in the order of their creation. */
export function fakeConnect(t: TestContext): FakeNetSocket[] {
  const sockets: FakeNetSocket[] = [];
  t.mock.method(net, "connect", (options: object) => {
    const socket = new FakeNetSocket(options);
    sockets.push(socket);
    return socket;
  });
  inEveryImport(t);
  return sockets;
}

/** Copies the mocks into the imports of all modules. Removes all mocks when the test ends, including timers. */
function inEveryImport(t: TestContext): void {
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.reset();
    syncBuiltinESMExports();
  });
}
