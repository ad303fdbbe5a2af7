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

/** Adds to the error of a connection its place and the remedy. A SwitchbackError is returned unchanged. */
export function explainConnection(error: unknown, access: Access): unknown {
  if (!(error instanceof Error) || error instanceof SwitchbackError) return error;
  const { code = "" } = error as NodeJS.ErrnoException;
  const known = CURES.find(([codes]) => codes.test(code));
  // After the semicolon, Node advises authors of Node programs.
  const text = known === undefined ? describeError(error).split(";", 1)[0] : `${known[1]} (${code})`;
  return Object.assign(new Error(`${placeOf(access)}: ${text}`), { code });
}

const CURES: ReadonlyArray<readonly [codes: RegExp, text: string]> = [
  [/^ECONNREFUSED$/, "nothing listens there; is the address right, and the API server running?"],
  [/^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/, "it does not answer; is there a route to it (VPN, firewall)?"],
  [/^(EPROTO|ECONNRESET)$/, "it does not speak TLS; is it an HTTPS address?"],
  [
    /^(UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED_CERT|DEPTH_ZERO_SELF_SIGNED_CERT|CERT_SIGNATURE_FAILURE)/,
    "its certificate is not from the CA in its configuration, or that has no CA",
  ],
];
