import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { readName } from "./dns-message.ts";

export const TYPE_A = 1;
export const TYPE_AAAA = 28;
export const NO_ERROR = 0;
export const SERVER_FAILURE = 2;
export const NO_NAME = 3;

/**
 * A server's answer to a name and type: an address as bytes, several of them, or a response code. Undefined: the server
 * does not answer.
 */
export type DnsAnswers = (name: string, type: number) => Buffer | readonly Buffer[] | number | undefined;

/** Maximum size of an answer over UDP (RFC 1035, 4.2.1). A longer one is truncated: the client asks over TCP. */
const UDP_BYTES = 512;
/** The flag in the third byte of a header that says so. */
const TRUNCATED = 0x02;

/** A real DNS server on UDP and TCP with answers from a test. */
export interface DnsServer {
  /** Includes the port if it is not 53. */
  readonly address: string;
  close(): void;
}

/** Answers with these IPv4 addresses. No other name exists. */
export function ipv4Answers(records: ReadonlyMap<string, string>): DnsAnswers {
  return (name, type) => {
    const address = records.get(name);
    if (address === undefined) return NO_NAME;
    return type === TYPE_A ? ipv4(address) : NO_ERROR;
  };
}

/** Serves on a loopback address. Port 0 means any free port. */
export async function startDnsServer(answers: DnsAnswers, ip = "127.0.0.1", port = 0): Promise<DnsServer> {
  const clients = new Set<Socket>();
  const tcp = createServer((client) => {
    clients.add(client);
    client.on("error", () => {});
    client.on("close", () => clients.delete(client));
    serveTcp(client, answers);
  });
  const udp = await bindBoth(tcp, ip, port);
  udp.on("message", (question: Buffer, from: RemoteInfo) => {
    const answer = answerTo(question, answers);
    if (answer !== undefined) udp.send(withinUdp(answer, question), from.port, from.address);
  });
  const { port: bound } = udp.address();
  const close = () => {
    udp.close();
    tcp.close();
    for (const client of clients) client.destroy();
  };
  return { address: bound === 53 ? ip : `${ip}:${bound}`, close };
}

/** Binds a port for both protocols. A free port of one may be taken in the other: then another one is tried. */
async function bindBoth(tcp: Server, ip: string, port: number): Promise<UdpSocket> {
  for (;;) {
    tcp.listen(port, ip);
    await once(tcp, "listening");
    const udp = createSocket("udp4");
    try {
      udp.bind((tcp.address() as AddressInfo).port, ip);
      await once(udp, "listening");
      return udp;
    } catch (error) {
      udp.close();
      tcp.close();
      await once(tcp, "close");
      if (port !== 0) throw error;
    }
  }
}

/** Over TCP, each message follows its length in two bytes. */
function serveTcp(client: Socket, answers: DnsAnswers): void {
  let received = Buffer.alloc(0);
  client.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const end = 2 + received.readUInt16BE(0);
      const answer = answerTo(received.subarray(2, end), answers);
      received = received.subarray(end);
      if (answer === undefined) continue;
      const length = Buffer.alloc(2);
      length.writeUInt16BE(answer.length);
      client.write(Buffer.concat([length, answer]));
    }
  });
}

function answerTo(question: Buffer, answers: DnsAnswers): Buffer | undefined {
  const { name, type, end } = questionOf(question);
  const found = answers(name.toLowerCase(), type);
  if (found === undefined) return undefined;
  const addresses = typeof found === "number" ? [] : Buffer.isBuffer(found) ? [found] : found;
  const header = Buffer.from(question.subarray(0, 12));
  header.writeUInt16BE(0x8180 | (typeof found === "number" ? found : NO_ERROR), 2);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, question.subarray(12, end), ...addresses.map((each) => recordOf(type, each))]);
}

function withinUdp(answer: Buffer, question: Buffer): Buffer {
  if (answer.length <= UDP_BYTES) return answer;
  const { end } = questionOf(question);
  const short = Buffer.from(answer.subarray(0, end));
  short.writeUInt8(short.readUInt8(2) | TRUNCATED, 2);
  short.writeUInt16BE(0, 6);
  return short;
}

/** An IPv4 address as bytes. */
export function ipv4(text: string): Buffer {
  return Buffer.from(text.split(".").map(Number));
}

function questionOf(message: Buffer) {
  const { name, end } = readName(message, 12);
  return { name: name.slice(0, -1), type: message.readUInt16BE(end), end: end + 4 };
}

/** A record with a TTL of an hour. A cache that is asked instead of this server would return old data. */
function recordOf(type: number, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0x0e, 0x10, 0, data.length]), data]);
}
