import { V2_SIGNATURE } from "./proxy-header.ts";

/** The protocol's own statement (2.1): who sees these bytes sees version 1. Receivers differ in what they demand after them. */
const V1_SIGNATURE: Uint8Array = Buffer.from("PROXY", "latin1");

/**
 * Finds out whether a stream begins with the signature of a PROXY header, version 1 or 2, in whatever pieces it arrives. Nothing is held
 * back for that: a beginning of a signature may be passed on, because no receiver takes it for a header, and only the piece with the last
 * byte of the signature is withheld. So a client may send `P` and wait for an answer, and a server may speak first.
 */
export class SignatureMatcher {
  #signature: Uint8Array | undefined;
  #matched = 0;

  /** Takes the next bytes. `yes`: the signature is complete; `no`: it never will be; `unknown`: so far it may become one. */
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
