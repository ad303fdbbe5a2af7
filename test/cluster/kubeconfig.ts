import { stringify } from "yaml";
import type { KeyPair } from "./pki.ts";

/** The user of a kubeconfig. */
export type Identity = { token: string } | { clientCert: KeyPair };

/** A kubeconfig that contains all credentials, so that the file can be used alone. */
export function kubeconfigText(url: string, ca: string, identity: Identity): string {
  const user =
    "token" in identity
      ? { token: identity.token }
      : {
          "client-certificate-data": base64(identity.clientCert.cert),
          "client-key-data": base64(identity.clientCert.key),
        };
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server: url, "certificate-authority-data": base64(ca) } }],
    users: [{ name: "test", user }],
    contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
    "current-context": "test",
  });
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
