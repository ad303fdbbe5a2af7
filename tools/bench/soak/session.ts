import type { Socket } from "node:net";
import { TLV_TYPE } from "#proxy/proxy-header.ts";
import type { ParsedHeader } from "#proxy/proxy-header-parse.ts";
import { Pattern } from "../pattern.ts";
import { End, type EndEvents, type Script } from "./end.ts";

/** What both ends of one connection through the proxy are going to do. */
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
  /** There is no upstream to be reached. */
  readonly isRefused: boolean;
}

/**
 * One connection from both its ends. Both run in this process, so whatever one end sees is held against what the
 * other has done: a FIN only if the other has sent one, and all its bytes before it; a break only if the other has
 * reset; the header with the real source.
 */
export class Session implements EndEvents {
  readonly id: number;
  readonly plan: Plan;
  readonly expected: Expected;
  readonly client: End;
  upstream: End | undefined;
  /** Its upstream is being restarted, or the proxy told to stop: it may break at any time. */
  isDisturbed = false;
  /** The local address was taken: nothing has been tried. */
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
    // Far apart for neighbours: a prime step.
    this.#up = new Pattern(id * 7_919);
    this.#down = new Pattern(id * 7_919 + 524_287);
    this.client = new End(socket, plan.client, { send: this.#up, receive: this.#down }, this);
  }

  /** The proxy has dialled for it. */
  adopt(socket: Socket, header: ParsedHeader, early: Buffer): void {
    const { version, source, destination } = this.expected;
    const told = header.endpoints;
    if (header.version !== version) this.#fault(`a header of version ${header.version} instead of ${version}`);
    const isRight =
      told?.source.address === source.address &&
      told.source.port === source.port &&
      told.destination.address === destination.address &&
      told.destination.port === destination.port;
    // The parser has held a checksum that is there against the bytes.
    const types = header.tlvs.map(({ type }) => type);
    const wanted = version === 2 ? [TLV_TYPE.crc32c, TLV_TYPE.uniqueId] : [];
    if (!wanted.every((type) => types.includes(type))) this.#fault(`a header with TLVs ${types} instead of ${wanted}`);
    if (!isRight) this.#fault(`the header says ${JSON.stringify(told)} instead of ${JSON.stringify(this.expected)}`);
    if (this.upstream !== undefined) this.#fault("the proxy has dialled twice for one client");
    this.upstream = new End(socket, this.plan.upstream, { send: this.#down, receive: this.#up }, this);
    if (this.isDisturbed) this.upstream.reset();
    this.upstream.start(early);
  }

  /** Its upstream goes away. */
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

  /** Bytes received and checked at both ends since the last call. */
  takeBytes(): number {
    const fresh = this.#bytes - this.#taken;
    this.#taken = this.#bytes;
    return fresh;
  }

  /** Whether anything has moved since the last call, or is not meant to. */
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

  /** Says where both ends stand, and takes them away. */
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
