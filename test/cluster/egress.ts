import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/**
 * Ports on 127.0.0.1 that get the connections to one address of the cluster, in turn. Empty: connections are refused.
 */
export type LocalPorts = readonly number[];

/** Finds the Service with a ClusterIP. The result has the form `<namespace>/<name>`. */
export type ServiceByIp = (ip: string) => Promise<string | undefined>;

/**
 * The path from the API server into the cluster, like Konnectivity in production. It is an HTTP CONNECT proxy on a
 * Unix socket. The API server uses it for webhooks and for the `proxy` subresources (EgressSelectorConfiguration).
 * Where kube-proxy would rewrite a ClusterIP to a pod's address, this proxy dials a port on 127.0.0.1. It does not
 * change the bytes, so that the API server's own TLS checks apply (name `<service>.<namespace>.svc`, caBundle).
 */
export class Egress {
  readonly #services = new Map<string, LocalPorts>();
  readonly #addresses = new Map<string, LocalPorts>();
  readonly #serviceByIp: ServiceByIp;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((_request, response) => response.writeHead(405).end());
  readonly #pages = createServer((incoming, answer) => void this.#forward(incoming, answer));
  #turn = 0;

  constructor(serviceByIp: ServiceByIp) {
    this.#serviceByIp = serviceByIp;
    this.#server.on("connect", (request, socket: Socket, head: Buffer) => {
      void this.#tunnel(request.url ?? "", socket, head);
    });
  }

  async listen(path: string): Promise<void> {
    await Promise.all([
      once(this.#server.listen(path).unref(), "listening"),
      once(this.#pages.listen(0, "127.0.0.1").unref(), "listening"),
    ]);
  }

  /** The port of 127.0.0.1 with an HTTP proxy that programs use to read pages of pods. */
  get port(): number {
    return (this.#pages.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (!this.#server.listening) return;
    this.#pages.close();
    this.#pages.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** `service` is `<namespace>/<name>:<port>`. This applies to new connections; open ones keep their port. */
  routeService(service: string, ports: LocalPorts): void {
    this.#services.set(service, ports);
  }

  /** `address` is `<ip>:<port>`, such as a pod's address that the test wrote into the pod's status. */
  routeAddress(address: string, ports: LocalPorts): void {
    this.#addresses.set(address, ports);
  }

  async #tunnel(address: string, socket: Socket, head: Buffer): Promise<void> {
    this.#track(socket);
    const port = await this.#localPort(address).catch(() => undefined);
    if (port === undefined) {
      socket.end("HTTP/1.1 502 no route\r\n\r\n");
      return;
    }
    const upstream = connect(port, "127.0.0.1");
    this.#track(upstream);
    const fail = () => socket.end("HTTP/1.1 502 connection refused\r\n\r\n");
    upstream.once("error", fail);
    upstream.once("connect", () => {
      upstream.off("error", fail);
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      upstream.write(head);
      socket.pipe(upstream).pipe(socket);
      socket.once("close", () => upstream.destroy());
      upstream.once("close", () => socket.destroy());
    });
  }

  /** Answers a GET of a page of a pod. */
  async #forward(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    const { host, pathname } = new URL(incoming.url ?? "", "http://none.invalid");
    const port = await this.#localPort(host).catch(() => undefined);
    const fail = () => void answer.writeHead(502).end(`no route to ${host}`);
    if (port === undefined) return fail();
    const outgoing = request({ host: "127.0.0.1", port, path: pathname }, (response) => {
      answer.writeHead(response.statusCode ?? 502);
      response.pipe(answer);
    });
    outgoing.on("error", fail).end();
  }

  async #localPort(address: string): Promise<number | undefined> {
    const ports = this.#addresses.get(address) ?? (await this.#servicePorts(address));
    if (ports === undefined || ports.length === 0) return undefined;
    this.#turn = (this.#turn + 1) % ports.length;
    return ports[this.#turn];
  }

  async #servicePorts(address: string): Promise<LocalPorts | undefined> {
    const colon = address.lastIndexOf(":");
    const service = await this.#serviceByIp(address.slice(0, colon));
    return service === undefined ? undefined : this.#services.get(service + address.slice(colon));
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.unref();
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#sockets.delete(socket));
  }
}
