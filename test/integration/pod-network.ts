import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * The way from a controller to the addresses of pods that do not run: an HTTP proxy on 127.0.0.1 that forwards a
 * pod's port to a local one. The controller gets the proxy from its environment (NODE_USE_ENV_PROXY).
 */
export class PodNetwork {
  readonly #routes = new Map<string, number>();
  readonly #server = createServer((incoming, answer) => {
    const { host, pathname } = new URL(incoming.url ?? "", "http://none.invalid");
    const port = this.#routes.get(host);
    if (port === undefined) {
      answer.writeHead(502).end(`no route to ${host}`);
      return;
    }
    const outgoing = request({ host: "127.0.0.1", port, path: pathname }, (response) => {
      answer.writeHead(response.statusCode ?? 502);
      response.pipe(answer);
    });
    outgoing.on("error", () => answer.writeHead(502).end());
    outgoing.end();
  });

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.#server.unref();
  }

  /** Makes `ip:port` lead to a port of this machine, or nowhere if `localPort` is undefined. */
  route(address: string, localPort: number | undefined): void {
    if (localPort === undefined) this.#routes.delete(address);
    else this.#routes.set(address, localPort);
  }

  /** Variables for the environment of a controller. */
  get environment(): Record<string, string> {
    const { port } = this.#server.address() as AddressInfo;
    return { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: `http://127.0.0.1:${port}`, NO_PROXY: "127.0.0.1,localhost" };
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
