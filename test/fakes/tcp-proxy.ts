import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A TCP proxy to a port of this machine. It can cut its connections, or stop forwarding their data. */
export interface TcpProxy {
  readonly port: number;
  /** Resets all open connections. */
  cut(): void;
  /**
   * Stops forwarding data on open connections, in both directions, without any other sign. New connections work
   * normally.
   */
  freeze(): void;
  close(): Promise<void>;
}

export async function startTcpProxy(to: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const server = createServer((client) => {
    const target = connect(to, "127.0.0.1");
    const pair = [client, target] as const;
    pairs.add(pair);
    for (const socket of pair) {
      socket.on("error", () => {});
      socket.on("close", () => {
        pairs.delete(pair);
        for (const other of pair) other.destroy();
      });
    }
    client.pipe(target);
    target.pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = () => {
    for (const [client, target] of pairs) {
      client.resetAndDestroy();
      target.destroy();
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    freeze() {
      for (const [client, target] of pairs) {
        client.unpipe(target).pause();
        target.unpipe(client).pause();
      }
    },
    async close() {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}
