import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { EventLoop } from "./event-loop.ts";
import { openLibc } from "./libc.ts";
import type { Command, Reply, WorkerData } from "./plan.ts";

/*
 * A worker thread. It never returns to Node's own event loop: it sleeps in epoll_wait, and takes its messages from the port when the
 * eventfd says that there are some.
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
