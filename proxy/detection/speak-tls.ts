import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls, createSecureContext } from "node:tls";
import { closed, type Outcome, settle } from "./outcome.ts";

/** Maximum bytes of a handshake that are read. A chain of certificates has a few thousand. */
const MAX_HANDSHAKE_BYTES = 64 * 1024;
/** A record's head, and the type of the handshake message in it (RFC 8446, 5.1 and 4). */
const FIRST_BYTES = 6;
const HANDSHAKE_RECORD = 22;
const TLS_MAJOR_VERSION = 3;
const SERVER_HELLO = 2;
const HANDSHAKE: Outcome = { kind: "answered", detail: "a TLS handshake" };

/**
 * Created once, because it costs as much CPU as a handshake. Without the large key share of post-quantum groups, a
 * header and the ClientHello after it fit in one segment.
 */
const CONTEXT = createSecureContext({ ca: [], ecdhCurve: "X25519:P-256:P-384:P-521" });

/**
 * Makes a TLS handshake without any data after it. A ServerHello counts as an answer, whatever follows, because no
 * server sends it in reply to a header. So a server that demands a client certificate has also answered.
 */
export function speakTls(
  socket: Socket,
  header: Buffer,
  { name }: { readonly name: string },
  answerMs: number,
): Promise<Outcome> {
  let first = Buffer.alloc(0);
  let received = 0;
  const answered = (): Outcome | undefined => (isServerHello(first) ? HANDSHAKE : undefined);
  const start = (done: (outcome: Outcome) => void): void => {
    const wire = wireOf(socket, header);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (first.length < FIRST_BYTES) first = Buffer.concat([first, chunk.subarray(0, FIRST_BYTES)]);
      if (received <= MAX_HANDSHAKE_BYTES) wire.push(chunk);
      else done(answered() ?? { kind: "misread", detail: "an answer that is not TLS" });
    });
    socket.once("end", () => wire.push(null));
    // The certificate does not matter: no data is sent.
    const tls = connectTls({ socket: wire, servername: name, rejectUnauthorized: false, secureContext: CONTEXT });
    socket.once("close", () => tls.destroy());
    // Sends the end of the handshake before it closes the connection, so that the server logs no error.
    tls.once("secureConnect", () => tls.end(() => done(HANDSHAKE)));
    tls.on("error", (error) => done(answered() ?? classifyTlsError(error)));
  };
  return settle(socket, answerMs, start, answered);
}

/** The connection as TLS uses it. The header and the ClientHello are sent in one write. */
function wireOf(socket: Socket, header: Buffer): Duplex {
  let before = header;
  const wire = new Duplex({
    read: () => {},
    write: (chunk: Buffer, _encoding, next) => {
      socket.write(Buffer.concat([before, chunk]), next);
      before = Buffer.alloc(0);
    },
    final: (next) => socket.end(next),
  });
  return wire.on("error", () => {});
}

/** Whether the bytes begin with a ServerHello. An echoed ClientHello is not one. */
function isServerHello(first: Buffer): boolean {
  return first[0] === HANDSHAKE_RECORD && first[1] === TLS_MAJOR_VERSION && first[5] === SERVER_HELLO;
}

/**
 * Alerts of a server that parsed the ClientHello (RFC 8446, 6.2). A server that parsed the header
 * as a ClientHello may send others. Go's TLS sends `internal_error` when it has no certificate for a name.
 */
const CLIENT_HELLO_ALERTS =
  /UNRECOGNIZED_NAME|HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED|ACCESS_DENIED|NO_APPLICATION_PROTOCOL|INTERNAL_ERROR/;

function classifyTlsError({ code = "", message }: NodeJS.ErrnoException): Outcome {
  if (CLIENT_HELLO_ALERTS.test(code)) return { kind: "answered", detail: `a TLS alert (${code})` };
  return code.startsWith("ERR_SSL") ? { kind: "misread", detail: `no TLS (${code})` } : closed(message);
}
