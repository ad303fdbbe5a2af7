import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { EventLoop } from "./event-loop.ts";
import { openLibc } from "./libc.ts";
import type { Command, Reply, WorkerData } from "./worker-messages.ts";

/*
 * A worker thread. It never returns to Node's event loop. It sleeps in epoll_wait, and receives its messages from the
 * port when the eventfd is readable.
 */
if (parentPort !== null) {
  const port = parentPort;
  const reply = (message: Reply): void => port.postMessage(message);
  const receive = (): Command | undefined => receiveMessageOnPort(port)?.message as Command | undefined;
  const loop = new EventLoop({ ...(workerData as WorkerData), libc: openLibc(), receive, reply });
  reply({ kind: "ready" });
  try {
    loop.run();
  } catch (error) {
    loop.abandon();
    throw error;
  } finally {
    port.close();
  }
}
