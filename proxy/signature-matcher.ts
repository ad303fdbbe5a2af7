import { V2_SIGNATURE } from "./proxy-header.ts";

/** These bytes identify version 1 (2.1 of the protocol). Receivers differ in what they require after them. */
const V1_SIGNATURE: Uint8Array = Buffer.from("PROXY", "latin1");

/**
 * Detects whether a stream begins with the signature of a PROXY header, version 1 or 2, in pieces of any size. It
 * delays no piece. No receiver takes the beginning of a signature for a header, so this beginning may be passed on.
 * Only the piece with the signature's last byte is withheld. So a client may send `P` and wait for an answer, and a
 * server may speak first.
 */
export class SignatureMatcher {
  #signature: Uint8Array | undefined;
  #matched = 0;

  /**
   * Takes the next bytes. `yes`: the signature is complete. `no`: it never will be. `unknown`: it may still become one.
   */
  take(bytes: Uint8Array): "yes" | "no" | "unknown" {
    this.#signature ??= bytes[0] === V2_SIGNATURE[0] ? V2_SIGNATURE : V1_SIGNATURE;
    for (const byte of bytes) {
      if (byte !== this.#signature[this.#matched]) return "no";
      this.#matched += 1;
      if (this.#matched === this.#signature.length) return "yes";
    }
    return "unknown";
  }
}
