import { isIP } from "node:net";

/** A connection or a request in the log of an ingress controller. */
interface LoggedCall {
  /** The client's address, as the ingress controller saw it. */
  readonly client: string;
  /** Whether it had no PROXY header although the ingress controller requires one. */
  readonly refused: boolean;
  /** Whether it requested an HTTP-01 challenge, as an ACME server and cert-manager's self-check do. */
  readonly challenge: boolean;
}

/** Maximum number of characters that are read from a log, counted from its end. */
const MAX_LOG_CHARS = 8 * 1024 * 1024;
/** Maximum number of characters in a line, and in a broken header as nginx logs it. */
const MAX_HEADER_CHARS = 4096;
const BROKEN = 'broken header: "';
const BROKEN_END = '" while reading PROXY protocol, client: ';
const CHALLENGE = "/.well-known/acme-challenge/";
/** Matches an address. A port may follow it, and quotes or brackets may enclose it. */
const ADDRESS = /(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?![\w.])/gi;
const CLIENT = /client: ?([0-9a-f.:]{2,45})/i;
/** The words with which HAProxy and Traefik report a missing PROXY header. */
const REFUSED = /does not look like a PROXY protocol header|proxyproto|PROXY protocol/i;

/**
 * Reads the calls from the text log of an ingress controller. nginx writes a broken header over several lines. Every
 * other call is one line. Its client follows the word `client`, or is the first address.
 */
export function callsIn(log: string): LoggedCall[] {
  const text = log.slice(-MAX_LOG_CHARS);
  const calls: LoggedCall[] = [];
  let rest = 0;
  for (let at = text.indexOf(BROKEN); at !== -1; at = text.indexOf(BROKEN, rest)) {
    calls.push(...linesIn(text.slice(rest, at)));
    const shown = text.slice(at + BROKEN.length, at + BROKEN.length + MAX_HEADER_CHARS);
    const end = shown.indexOf(BROKEN_END);
    rest = at + BROKEN.length;
    if (end === -1) continue;
    rest += end + BROKEN_END.length;
    const [client = ""] = /^[0-9a-f.:]{0,45}/i.exec(text.slice(rest, rest + 45)) ?? [];
    if (isIP(client) !== 0) calls.push({ client, refused: true, challenge: shown.slice(0, end).includes(CHALLENGE) });
    // The rest of the line is about the server's side.
    const newline = text.indexOf("\n", rest);
    rest = newline === -1 ? text.length : newline;
  }
  return [...calls, ...linesIn(text.slice(rest))];
}

function linesIn(text: string): LoggedCall[] {
  return text.split("\n").flatMap((whole) => {
    const line = whole.slice(0, MAX_HEADER_CHARS);
    const client = CLIENT.exec(line)?.[1] ?? firstAddress(line);
    if (client === undefined || isIP(client) === 0) return [];
    return { client, refused: REFUSED.test(line), challenge: line.includes(CHALLENGE) };
  });
}

function firstAddress(line: string): string | undefined {
  return line.match(ADDRESS)?.find((text) => isIP(text) !== 0);
}

/** Reads a log of any length and keeps its end. */
export async function readLog(source: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const chunk of source) {
    text += chunk;
    if (text.length > 2 * MAX_LOG_CHARS) text = text.slice(-MAX_LOG_CHARS);
  }
  return text;
}
