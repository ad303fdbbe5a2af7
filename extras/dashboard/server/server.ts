import { randomBytes } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describeError } from "#lib/errors/errors.ts";
import { http } from "#lib/http/http.ts";
import { listen, type Page } from "#lib/http/listen.ts";
import { Feed } from "./feed.ts";
import { behindToken, HEADERS, isOfOtherPage, isOwnHost } from "./guard.ts";
import type { FeedMessage } from "./messages.ts";
import type { DashboardSource } from "./source.ts";

interface DashboardOptions {
  readonly source: DashboardSource;
  /** The page's files, by path. The path of the page itself is empty. */
  readonly files: Readonly<Record<string, Page>>;
  /** Port on loopback; 0 selects a free one. */
  readonly port: number;
  /** Time between two reads of the status, and of the metrics (`trafficMs`), milliseconds. */
  readonly everyMs?: number;
  readonly trafficMs?: number;
}

export interface RunningDashboard {
  /** The page's address. Anyone who has it can see what the person who runs the command may read in the cluster. */
  readonly address: string;
  readonly server: Server;
  stop(): Promise<void>;
}

const LOOPBACK = "127.0.0.1";
/**
 * Maximum size of the data that a tab has not taken yet. With more, the tab is disconnected, and gets everything
 * again when it reconnects.
 */
const MAX_UNREAD_BYTES = 128 * 1024 * 1024;
/** Time between two comments in the stream, which show that it is alive. */
const HEARTBEAT_MS = 15_000;

type Handler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** Serves the dashboard on loopback, until `stop`. Throws `listen-failed`. */
export async function startDashboard(options: DashboardOptions): Promise<RunningDashboard> {
  const { source, files, port } = options;
  const token = randomBytes(24).toString("base64url");
  const feed = new Feed({ ...options, now: Date.now });
  const routes: Readonly<Record<string, Handler>> = {
    ...fileRoutes(files),
    "GET events": (request, response) => sendEvents(feed, request, response),
    ...(source.doctor && { "POST doctor": examineWith(feed) }),
  };
  const server = http.createServer((request, response) => {
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
    const handled = async () => await handlerOf(request, token, routes)(request, response);
    handled().catch((error: unknown) => sendText(response, 502, describeError(error)));
  });
  await listen(server, port, LOOPBACK);
  const address = `http://${LOOPBACK}:${(server.address() as AddressInfo).port}/${token}/`;
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { address, server, stop };
}

function fileRoutes(files: Readonly<Record<string, Page>>): Record<string, Handler> {
  const serve =
    ({ contentType, body }: Page): Handler =>
    (_request, response) =>
      send(response, 200, contentType, body);
  return Object.fromEntries(Object.entries(files).map(([path, page]) => [`GET ${path}`, serve(page)]));
}

/** A refused request gets no information, not even whether its token was right. */
function handlerOf(request: IncomingMessage, token: string, routes: Readonly<Record<string, Handler>>): Handler {
  if (!isOwnHost(request)) return refuse(403, "this server has another name");
  if (isOfOtherPage(request)) return refuse(403, "not for other pages");
  const path = behindToken((request.url ?? "").split("?", 1)[0] ?? "", token);
  const route = `${request.method} ${path}`;
  if (path !== undefined && Object.hasOwn(routes, route)) return routes[route] ?? refuse(404, "not found");
  return refuse(404, "not found");
}

function refuse(status: number, text: string): Handler {
  return (_request, response) => sendText(response, status, text);
}

function sendEvents(feed: Feed, request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const write = (text: string) => {
    if (response.writableLength > MAX_UNREAD_BYTES) response.destroy();
    else response.write(text);
  };
  const stop = feed.subscribe((messages) => {
    for (const message of messages) write(eventOf(message));
  });
  const heartbeat = setInterval(() => write(":\n\n"), HEARTBEAT_MS);
  request.once("close", () => {
    clearInterval(heartbeat);
    stop();
  });
}

/** JSON text contains no line feeds, so nothing in a message can end the event. */
function eventOf(message: FeedMessage): string {
  return `data: ${JSON.stringify(message)}\n\n`;
}

function examineWith(feed: Feed): Handler {
  return async (_request, response) => {
    send(response, 200, "application/json", JSON.stringify(await feed.examine()));
  };
}

function sendText(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) response.destroy();
  else send(response, status, "text/plain; charset=utf-8", `${text}\n`);
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { "content-type": contentType, "content-length": Buffer.byteLength(body) });
  response.end(body);
}
