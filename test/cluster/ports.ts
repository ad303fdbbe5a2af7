import { once } from "node:events";
import { createServer } from "node:net";

/**
 * First port. The range is below the ports that Linux uses for outgoing connections (ip(7), ip_local_port_range:
 * 32768 to 60999), of which other tests open thousands. It is above the listen ports that are derived from targets.
 */
const FIRST = 25_000;
const COUNT = 7_500;

/** Where the next search starts. Each process starts at a random place. */
let next = Math.floor(Math.random() * COUNT);

/** Different ports of 127.0.0.1 that were free a moment ago. They also differ from those of earlier calls. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let tries = 0; ports.length < count; tries += 1) {
    if (tries === COUNT) throw new Error(`no ${count} free ports from ${FIRST} to ${FIRST + COUNT - 1}`);
    const port = FIRST + (next % COUNT);
    next += 1;
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return false;
    throw error;
  }
  server.close();
  await once(server, "close");
  return true;
}
