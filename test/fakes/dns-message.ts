import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect } from "node:net";

// A DNS client that shows all records of an answer: node:dns knows only a few types of records, and hides the rest.

export const TYPES = {
  A: 1,
  NS: 2,
  SOA: 6,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  OPT: 41,
  SVCB: 64,
  HTTPS: 65,
  ANY: 255,
  CAA: 257,
} as const;
export type TypeName = keyof typeof TYPES;

interface Server {
  readonly address: string;
  readonly port: number;
}

interface QueryOptions {
  readonly tcp?: boolean;
  /** Announces this many bytes with EDNS (RFC 6891). */
  readonly edns?: number;
  /** How long to wait for an answer. */
  readonly timeoutMs?: number;
}

/** An answer: the question's name as the server returned it, and the records of the answer section as sorted text. */
export interface Answer {
  readonly rcode: number;
  readonly truncated: boolean;
  readonly question: string;
  readonly records: readonly string[];
  /** The addresses among the records. */
  readonly addresses: readonly string[];
  readonly ttls: readonly number[];
}

const QUERY_MS = 10_000;

/** Asks a server once. Rejects if it does not answer, or ends the connection. */
export async function query(server: Server, name: string, type: TypeName, options: QueryOptions = {}): Promise<Answer> {
  const id = Math.floor(Math.random() * 0x10000);
  const message = encodeQuery(id, name, TYPES[type], options.edns);
  const signal = AbortSignal.timeout(options.timeoutMs ?? QUERY_MS);
  const answer = decode(await (options.tcp ? overTcp : overUdp)(server, message, signal));
  if (answer.id !== id) throw new Error(`the answer to ${name} has another id`);
  return answer;
}

async function overUdp({ address, port }: Server, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  const socket = createSocket("udp4");
  try {
    socket.connect(port, address);
    await once(socket, "connect");
    socket.send(message);
    const [answer] = await once(socket, "message", { signal });
    return answer;
  } finally {
    socket.close();
  }
}

async function overTcp({ address, port }: Server, message: Buffer, signal: AbortSignal): Promise<Buffer> {
  const socket = connect(port, address);
  try {
    await once(socket, "connect", { signal });
    const length = Buffer.alloc(2);
    length.writeUInt16BE(message.length);
    socket.write(Buffer.concat([length, message]));
    let read = Buffer.alloc(0);
    while (read.length < 2 || read.length < 2 + read.readUInt16BE(0)) {
      const [chunk] = await once(socket, "data", { signal });
      read = Buffer.concat([read, chunk]);
    }
    return read.subarray(2);
  } finally {
    socket.destroy();
  }
}

/** Encodes a question. `edns` announces that many bytes. */
function encodeQuery(id: number, name: string, type: number, edns?: number | undefined): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(id, 0);
  // Recursion desired; one question.
  header.writeUInt16BE(0x0100, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(edns === undefined ? 0 : 1, 10);
  const labels = name
    .split(".")
    .filter((label) => label !== "")
    .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")]));
  const end = Buffer.alloc(5);
  end.writeUInt16BE(type, 1);
  end.writeUInt16BE(1, 3);
  const options = edns === undefined ? [] : [Buffer.from([0, 0, TYPES.OPT, edns >> 8, edns & 255, 0, 0, 0, 0, 0, 0])];
  return Buffer.concat([header, ...labels, end, ...options]);
}

function decode(message: Buffer): Answer & { readonly id: number } {
  const flags = message.readUInt16BE(2);
  const [questions, answers] = [message.readUInt16BE(4), message.readUInt16BE(6)];
  let at = 12;
  let question = "";
  for (let index = 0; index < questions; index += 1) {
    const read = readName(message, at);
    question = read.name;
    at = read.end + 4;
  }
  const [records, addresses, ttls]: [string[], string[], number[]] = [[], [], []];
  for (let index = 0; index < answers; index += 1) {
    const owner = readName(message, at);
    const type = message.readUInt16BE(owner.end);
    const start = owner.end + 10;
    const length = message.readUInt16BE(owner.end + 8);
    const data = dataOf(message, type, start, length);
    records.push(`${owner.name.toLowerCase()} ${type} ${data}`);
    ttls.push(message.readUInt32BE(owner.end + 4));
    if (type === TYPES.A || type === TYPES.AAAA) addresses.push(data);
    at = start + length;
  }
  const truncated = (flags & 0x0200) !== 0;
  const id = message.readUInt16BE(0);
  return { id, rcode: flags & 15, truncated, question, records: records.sort(), addresses: addresses.sort(), ttls };
}

/** Record data as text. It has names in full, because servers compress them differently. */
function dataOf(message: Buffer, type: number, start: number, length: number): string {
  const data = message.subarray(start, start + length);
  if (type === TYPES.A) return [...data].join(".");
  if (type === TYPES.AAAA)
    return new URL(`http://[${data.toString("hex").replace(/.{4}(?!$)/g, "$&:")}]`).hostname.slice(1, -1);
  if (type === TYPES.NS) return readName(message, start).name;
  if (type === TYPES.MX) return `${data.readUInt16BE(0)} ${readName(message, start + 2).name}`;
  if (type === TYPES.SOA) {
    const server = readName(message, start);
    const person = readName(message, server.end);
    return `${server.name} ${person.name} ${message.subarray(person.end, start + length).toString("hex")}`;
  }
  return data.toString("hex");
}

/** Reads a name at a position of a message. The name has a dot at its end. */
export function readName(message: Buffer, start: number): { name: string; end: number } {
  const labels: string[] = [];
  let at = start;
  let end: number | undefined;
  for (let length = message.readUInt8(at); length !== 0; length = message.readUInt8(at)) {
    if (length >= 0xc0) {
      end ??= at + 2;
      at = message.readUInt16BE(at) & 0x3fff;
      continue;
    }
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: `${labels.join(".")}.`, end: end ?? at + 1 };
}
