import type { Socket } from "node:net";
import { TLV_TYPE } from "#proxy/proxy-header.ts";
import type { ParsedHeader } from "#proxy/proxy-header-parse.ts";
import { Pattern } from "../pattern.ts";
import { End, type EndEvents, type Script } from "./end.ts";

/** What both ends of one connection through the proxy do. */
export interface Plan {
  readonly kind: string;
  readonly client: Script;
  readonly upstream: Script;
}

export interface SessionFault {
  readonly kind: string;
  readonly id: number;
  readonly text: string;
}

interface Expected {
  readonly version: 1 | 2;
  readonly source: { readonly address: string; readonly port: number };
  readonly destination: { readonly address: string; readonly port: number };
  /** Whether the upstream cannot be reached. */
  readonly isRefused: boolean;
}

/**
 * Both ends of one connection. Both run in this process, so each event at one end can be checked against the other
 * end's actions. A FIN is correct only if the other end has sent one and all its bytes arrived. A break is correct
 * only if the other end has reset. The header must have the real source.
 */
export class Session implements EndEvents {
  readonly id: number;
  readonly plan: Plan;
  readonly expected: Expected;
  readonly client: End;
  upstream: End | undefined;
  /** Whether its upstream restarts or the proxy is stopping, so that it may break at any time. */
  isDisturbed = false;
  /** Whether the local address was taken, so that no connection was tried. */
  isVoid = false;
  readonly #onFault: (fault: SessionFault) => void;
  readonly #onClosed: (session: Session) => void;
  readonly #up: Pattern;
  readonly #down: Pattern;
  #lastSeen = -1;
  #taken = 0;

  constructor(
    id: number,
    plan: Plan,
    expected: Expected,
    socket: Socket,
    on: { fault: (fault: SessionFault) => void; closed: (session: Session) => void },
  ) {
    this.id = id;
    this.plan = plan;
    this.expected = expected;
    this.#onFault = on.fault;
    this.#onClosed = on.closed;
    // A prime step, so that consecutive streams are far apart.
    this.#up = new Pattern(id * 7_919);
    this.#down = new Pattern(id * 7_919 + 524_287);
    this.client = new End(socket, plan.client, { send: this.#up, receive: this.#down }, this);
  }

  /** Accepts the connection that the proxy opened for this client. */
  adopt(socket: Socket, header: ParsedHeader, early: Buffer): void {
    const { version, source, destination } = this.expected;
    const told = header.endpoints;
    if (header.version !== version) this.#fault(`a header of version ${header.version} instead of ${version}`);
    const isRight =
      told?.source.address === source.address &&
      told.source.port === source.port &&
      told.destination.address === destination.address &&
      told.destination.port === destination.port;
    // The parser has verified the checksum, if there is one.
    const types = header.tlvs.map(({ type }) => type);
    const wanted = version === 2 ? [TLV_TYPE.crc32c, TLV_TYPE.uniqueId] : [];
    if (!wanted.every((type) => types.includes(type))) this.#fault(`a header with TLVs ${types} instead of ${wanted}`);
    if (!isRight) this.#fault(`the header says ${JSON.stringify(told)} instead of ${JSON.stringify(this.expected)}`);
    if (this.upstream !== undefined) this.#fault("the proxy has dialled twice for one client");
    this.upstream = new End(socket, this.plan.upstream, { send: this.#down, receive: this.#up }, this);
    if (this.isDisturbed) this.upstream.reset();
    this.upstream.start(early);
  }

  /** Handles the end of its upstream. */
  disturb(): void {
    this.isDisturbed = true;
    this.upstream?.reset();
  }

  get isClosed(): boolean {
    return this.client.isClosed && this.upstream?.isClosed !== false;
  }

  get wasReset(): boolean {
    return this.client.wasReset || this.upstream?.wasReset === true || this.isDisturbed || this.expected.isRefused;
  }

  get #bytes(): number {
    return this.client.received + (this.upstream?.received ?? 0);
  }

  /** Number of bytes received and checked at both ends since the last call. */
  takeBytes(): number {
    const fresh = this.#bytes - this.#taken;
    this.#taken = this.#bytes;
    return fresh;
  }

  /** Whether bytes have moved since the last call, or a planned pause holds them back. */
  moved(): boolean {
    const seen = this.#bytes + this.client.sent + (this.upstream?.sent ?? 0);
    const isWaiting = this.client.isWaiting || this.upstream?.isWaiting === true;
    const before = this.#lastSeen;
    this.#lastSeen = seen;
    return isWaiting || seen !== before;
  }

  finished(end: End): void {
    const other = this.#otherOf(end);
    const side = this.#sideOf(end);
    if (other === undefined) this.#fault(`${side}: a FIN, but there has been no upstream`);
    else if (!other.finSent) this.#fault(`${side}: a FIN that the other end has not sent, after ${end.received} bytes`);
    else if (end.received !== other.sent) {
      this.#fault(`${side}: a FIN after ${end.received} of ${other.sent} bytes`);
    }
  }

  broken(end: End, code: string): void {
    if (end === this.client && (code === "EADDRINUSE" || code === "EADDRNOTAVAIL")) {
      this.isVoid = true;
      return;
    }
    const isExpected = this.#otherOf(end)?.wasReset === true || this.isDisturbed || this.expected.isRefused;
    const isKnown = code === "ECONNRESET" || code === "EPIPE";
    if (isExpected && isKnown) return;
    this.#fault(`${this.#sideOf(end)}: ${code} after ${end.received} bytes received and ${end.sent} sent`);
  }

  wrong(end: End, text: string): void {
    this.#fault(`${this.#sideOf(end)}: wrong bytes ${text}`);
  }

  closed(end: End): void {
    if (end === this.client && this.upstream === undefined && !this.wasReset && !this.isVoid) {
      this.#fault("client: closed, and there has been no upstream");
    }
    if (!this.isClosed) return;
    if (!this.wasReset && !this.isVoid) this.#checkWhole();
    this.#onClosed(this);
  }

  /** Reports the state of both ends, and closes them. */
  stuck(seconds: number): void {
    const tell = (end: End | undefined): string =>
      end === undefined
        ? "none"
        : `sent ${end.sent} of ${end.script.send}${end.finSent ? " and FIN" : ""}, received ${end.received}` +
          `${end.finSeen ? " and FIN" : ""}${end.wasReset ? ", reset" : ""}` +
          `${end.wasBroken ? ", broken" : ""}${end.isClosed ? ", closed" : ""}`;
    this.#fault(`nothing moves for ${seconds} s; client: ${tell(this.client)}; upstream: ${tell(this.upstream)}`);
    this.isDisturbed = true;
    this.client.socket.destroy();
    this.upstream?.socket.destroy();
  }

  #checkWhole(): void {
    for (const end of [this.client, this.upstream]) {
      if (end !== undefined && !end.finSeen && !end.wasBroken)
        this.#fault(`${this.#sideOf(end)}: closed without a FIN`);
    }
  }

  #otherOf(end: End): End | undefined {
    return end === this.client ? this.upstream : this.client;
  }

  #sideOf(end: End): string {
    return end === this.client ? "client" : "upstream";
  }

  #fault(text: string): void {
    this.#onFault({ kind: this.plan.kind, id: this.id, text });
  }
}
