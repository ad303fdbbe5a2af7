import type { Agent, IncomingMessage } from "node:http";
import https from "node:https";
import { createSecureContext } from "node:tls";
import { http } from "#lib/http/http.ts";
import { type Access, type Credentials, sameTls } from "./credentials.ts";
import { unlessAborted } from "./time.ts";

/** One HTTP request to the API server. */
export interface Exchange {
  method: string;
  /** The path, including the query. */
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  /** Watches, and the lists before them, use separate connections. So they never delay a call. */
  channel: "call" | "watch";
  /** Aborts the exchange at any point, even while the body is read. */
  signal: AbortSignal;
}

export interface Transport {
  /**
   * Returns the response, whatever its status, with its body unread. Rejects if there is no response, and when
   * `signal` fires.
   */
  send(exchange: Exchange): Promise<IncomingMessage>;
  /** Closes idle connections. After a timeout none of them can be trusted. */
  dropIdle(): void;
  close(): void;
}

interface Agents {
  tls: Access["tls"];
  call: Agent;
  watch: Agent;
}

/**
 * kube-apiserver closes idle connections after 90 s (the default of Go's server). Closing earlier avoids sending a
 * request on a connection that the server is closing.
 */
const IDLE_SOCKET_MS = 60_000;
/** The same value as in client-go. */
const TCP_KEEPALIVE_MS = 30_000;
/** Maximum number of concurrent calls. Further calls wait for a connection within their deadline. */
const MAX_CALL_SOCKETS = 16;

/**
 * Uses HTTP/1.1 with keep-alive. HTTP/2 is avoided on purpose: all calls would share one connection. If packets on it
 * were dropped, all calls would fail until the kernel closes it.
 */
export function createTransport(credentials: Credentials, userAgent: string): Transport {
  let agents: Agents | undefined;

  function agentFor(access: Access, channel: Exchange["channel"]): Agent {
    if (access.agent) return access.agent;
    if (agents === undefined || !sameTls(agents.tls, access.tls)) {
      if (agents) retire(agents);
      agents = createAgents(access);
    }
    // From now on the comparison is one of identity.
    agents.tls = access.tls;
    return agents[channel];
  }

  function once(access: Access, exchange: Exchange): Promise<IncomingMessage> {
    return request(access, agentFor(access, exchange.channel), exchange, userAgent);
  }

  function dropIdle(): void {
    if (agents) for (const agent of [agents.call, agents.watch]) destroyIdle(agent);
  }

  return {
    async send(exchange) {
      const access = await unlessAborted(credentials.current(), exchange.signal);
      const response = await once(access, exchange);
      if (response.statusCode !== 401) return response;
      const renewed = await unlessAborted(credentials.renew(access), exchange.signal);
      if (renewed === access) return response;
      response.resume();
      return once(renewed, exchange);
    },
    dropIdle,
    close() {
      if (agents === undefined) return;
      // Requests that still wait for a connection would leave one open.
      retire(agents);
      agents.call.destroy();
      agents.watch.destroy();
    },
  };
}

function request(access: Access, agent: Agent, exchange: Exchange, userAgent: string): Promise<IncomingMessage> {
  const { server } = access;
  const body = exchange.body === undefined ? undefined : Buffer.from(exchange.body);
  return new Promise((resolve, reject) => {
    const sent = (server.protocol === "https:" ? https : http).request({
      agent,
      host: server.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: server.port || (server.protocol === "https:" ? 443 : 80),
      method: exchange.method,
      path: server.pathname.replace(/\/$/, "") + exchange.path,
      headers: {
        accept: "application/json",
        "user-agent": userAgent,
        ...(body === undefined ? {} : { "content-length": body.length }),
        ...exchange.headers,
        ...access.headers,
      },
      signal: exchange.signal,
    });
    sent.on("response", resolve);
    // Without a listener, node:http closes the connection after 101 and reports neither a response nor an error.
    sent.on("upgrade", (_response, socket) => {
      socket.destroy();
      reject(new Error("the server switched protocols (101) without a request to do so"));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

function createAgents(access: Access): Agents {
  const options = { keepAlive: true, keepAliveMsecs: TCP_KEEPALIVE_MS, timeout: IDLE_SOCKET_MS };
  const { servername, rejectUnauthorized, ...material } = access.tls;
  const isTls = access.server.protocol === "https:";
  // One context for all connections. Otherwise each connection would parse the CA again, and keep it.
  const secured = isTls && { secureContext: createSecureContext(material) };
  const named = {
    ...(servername !== undefined && { servername }),
    ...(rejectUnauthorized !== undefined && { rejectUnauthorized }),
  };
  const create = (maxSockets: number): Agent =>
    secured
      ? new https.Agent({ ...options, maxSockets, ...named, ...secured })
      : new http.Agent({ ...options, maxSockets });
  return { tls: access.tls, call: create(MAX_CALL_SOCKETS), watch: create(Number.POSITIVE_INFINITY) };
}

/** Lets running exchanges finish, but does not reuse their connections. */
function retire(agents: Agents): void {
  for (const agent of [agents.call, agents.watch]) {
    agent.maxFreeSockets = 0;
    destroyIdle(agent);
  }
}

function destroyIdle(agent: Agent): void {
  for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy();
}
