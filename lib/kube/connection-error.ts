import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { Access } from "./credentials.ts";

/**
 * Describes where a connection leads and what configures it, for messages: `https://10.0.0.1:6443 (context "x" of
 * kubeconfig /home/me/.kube/config)`.
 */
export function placeOf({ server, from }: Access): string {
  // Do not use `href`: it would include a password.
  const url = `${server.origin}${server.pathname}`.replace(/\/$/, "");
  return from === undefined ? url : `${url} (${from.what})`;
}

/** Explains why a connection failed: its place and the remedy. A SwitchbackError is returned unchanged. */
export function explainConnection(error: unknown, access: Access): unknown {
  if (!(error instanceof Error) || error instanceof SwitchbackError) return error;
  const { code = "" } = error as NodeJS.ErrnoException;
  const cure = cureOf(code, access);
  // Node's own advice about certificates is for authors of Node programs.
  const text = cure === undefined ? describeError(error) : `${cure} (${code})`;
  return Object.assign(new Error(`${placeOf(access)}: ${text}`), { code });
}

const CURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there; is the address right, and the API server running?",
  ENOTFOUND: "the name does not resolve; is it right?",
  EAI_AGAIN: "the name cannot be resolved now; is there a network?",
  ETIMEDOUT: "it does not answer; is there a route to it (VPN, firewall)?",
  EHOSTUNREACH: "there is no route to it (VPN, firewall)",
  ENETUNREACH: "there is no route to it (VPN, firewall)",
  ECONNRESET: "it closed the connection; does it speak HTTPS?",
  EPROTO: "it does not speak TLS; is it an HTTPS address?",
  CERT_HAS_EXPIRED: "its certificate has expired, or the clock of this machine is wrong",
  CERT_NOT_YET_VALID: "its certificate is not valid yet, or the clock of this machine is wrong",
};

/** OpenSSL's codes for a certificate whose CA is unknown. */
const UNKNOWN_CA =
  /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|CERT_SIGNATURE_FAILURE)/;

function cureOf(code: string, { server, tls, from }: Access): string | undefined {
  if (UNKNOWN_CA.test(code)) {
    const source = from?.ca ?? "its configuration";
    return tls.ca === undefined
      ? `its certificate is from a CA that this machine does not trust, and there is none in ${source}`
      : `its certificate is not from the CA in ${source}: another cluster's, or one from before it was replaced`;
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return (
      `its certificate is not for ${tls.servername ?? server.hostname}; use an address that it is for, or set ` +
      "tls-server-name"
    );
  }
  if (code.startsWith("ERR_OSSL_") || code.startsWith("ERR_CRYPTO_")) {
    return "the CA, the client certificate or its key that is configured for it does not load";
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) return "it refuses the client certificate, or TLS of this version";
  if (code.startsWith("HPE_")) return "it does not answer in HTTP; is it an API server?";
  return CURES[code];
}
