import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import { ReleaseError } from "./error.ts";

/** Environment variable with the project's private key. A variable keeps it out of the process list. */
export const SIGNING_KEY_VARIABLE = "RELEASE_SIGNING_KEY";

/**
 * Reads a PEM private key without a password: ECDSA on P-256, like cosign's keys. Undefined without a key. Throws a
 * ReleaseError, which never contains a part of the key.
 */
export function readSigningKey(pem: string | undefined): KeyObject | undefined {
  if (!pem) return undefined;
  const wanted = "a PEM private key, ECDSA on P-256, without a password";
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // The cause could contain the key.
    throw new ReleaseError(`${SIGNING_KEY_VARIABLE} does not load; it takes ${wanted}`);
  }
  if (key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key;
  throw new ReleaseError(
    `${SIGNING_KEY_VARIABLE} is a key of another kind (${key.asymmetricKeyType}); it takes ${wanted}`,
  );
}

/**
 * The output of `cosign sign-blob --key`: base64 of the DER signature of the SHA-256. It has a random part, so it
 * differs each time.
 */
export function signatureOf(data: Buffer, key: KeyObject): string {
  return sign("sha256", data, key).toString("base64");
}
