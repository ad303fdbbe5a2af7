import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";

/** Address and port of a listener. */
export interface Place {
  readonly address: string;
  readonly port: number;
}

/** Duration of a flood, in milliseconds. */
export const FLOOD_MS = 5_000;

/** The first bytes that a TLS client sends. */
export function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    connectTls({ socket: new Duplex({ read() {}, write: resolve }) }).on("error", () => {});
  });
}

/**
 * Opens `count` connections from an address and keeps them for 5 s, or while `meanwhile` runs. Opens a new one for
 * each that closes, up to `count` times.
 */
export async function flood(
  count: number,
  source: string,
  { address, port }: Place,
  speak: (socket: Socket) => void,
  meanwhile: () => Promise<void> = () => delay(FLOOD_MS),
): Promise<void> {
  const sockets = new Set<Socket>();
  let left = count * 2;
  const open = (): void => {
    if (left <= 0) return;
    left -= 1;
    const socket = connect({ host: address, port, localAddress: source });
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("connect", () => speak(socket));
    socket.once("close", () => {
      sockets.delete(socket);
      setImmediate(open);
    });
  };
  for (let index = 0; index < count; index += 1) open();
  try {
    await meanwhile();
  } finally {
    left = 0;
    const ends = [...sockets].map((socket) => once(socket.destroy(), "close"));
    await Promise.all(ends);
  }
}
