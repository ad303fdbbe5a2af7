import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

export const TYPE_A = 1;
export const TYPE_AAAA = 28;
export const NO_ERROR = 0;
export const SERVER_FAILURE = 2;
export const NO_NAME = 3;

/**
 * A server's answer to a name and type: an address as bytes, or a response code. Undefined: the server does not
 * answer.
 */
export type DnsAnswers = (name: string, type: number) => Buffer | number | undefined;

/** A real DNS server on UDP with answers from a test. */
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
  const socket = createSocket("udp4");
  socket.on("message", (question: Buffer, from: RemoteInfo) => {
    const { name, type, end } = questionOf(question);
    const found = answers(name.toLowerCase(), type);
    if (found === undefined) return;
    const isAddress = typeof found !== "number";
    const header = Buffer.from(question.subarray(0, 12));
    header.writeUInt16BE(0x8180 | (isAddress ? NO_ERROR : found), 2);
    header.writeUInt16BE(isAddress ? 1 : 0, 6);
    header.writeUInt32BE(0, 8);
    const record = isAddress ? recordOf(type, found) : Buffer.alloc(0);
    socket.send(Buffer.concat([header, question.subarray(12, end), record]), from.port, from.address);
  });
  socket.bind(port, ip);
  await once(socket, "listening");
  const bound = (socket.address() as AddressInfo).port;
  return { address: bound === 53 ? ip : `${ip}:${bound}`, close: () => socket.close() };
}

/** An IPv4 address as bytes. */
export function ipv4(text: string): Buffer {
  return Buffer.from(text.split(".").map(Number));
}

function questionOf(message: Buffer) {
  const labels: string[] = [];
  let at = 12;
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join("."), type: message.readUInt16BE(at + 1), end: at + 5 };
}

/** A record with a TTL of an hour. A cache that is asked instead of this server would return old data. */
function recordOf(type: number, data: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0x0e, 0x10, 0, data.length]), data]);
}
