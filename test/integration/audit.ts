import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What of an event of audit.k8s.io/v1 is looked at. */
export interface AuditEntry {
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly objectRef?: {
    readonly resource: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
    readonly apiGroup?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

const CREDENTIAL = "authentication.kubernetes.io/credential-id";

/** The chart's Roles for people and pipelines; `System.person` binds each to a group of its name. */
export const PEOPLE = ["switchback-operator", "switchback-map-reader", "switchback-doctor"] as const;

/** The API server's audit log of our accounts and of those people. Watches are in it once they have begun. */
export class AuditLog {
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, "audit.log");
  }

  /** Writes the policy; gives the API server's flags. */
  static async prepare(folder: string, namespace: string): Promise<string[]> {
    const users = ["controller", "webhook", "proxy", "dns", "uninstall", "remains"].map(
      (component) => `system:serviceaccount:${namespace}:switchback-${component}`,
    );
    const policy = {
      apiVersion: "audit.k8s.io/v1",
      kind: "Policy",
      omitStages: ["RequestReceived"],
      rules: [{ level: "Metadata", users }, { level: "Metadata", userGroups: PEOPLE }, { level: "None" }],
    };
    await writeFile(join(folder, "audit.yaml"), JSON.stringify(policy));
    return [`--audit-policy-file=${join(folder, "audit.yaml")}`, `--audit-log-path=${join(folder, "audit.log")}`];
  }

  /** All entries so far, in order; a line that is being written is left out. */
  async entries(): Promise<AuditEntry[]> {
    const lines = (await readFile(this.#file, "utf8")).split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as AuditEntry);
  }

  /** Those of one replica. */
  async of({ credential }: { readonly credential: string }): Promise<AuditEntry[]> {
    return (await this.entries()).filter(({ user }) => user.extra?.[CREDENTIAL]?.includes(credential));
  }
}

/** The id of a ServiceAccount's token: the claim `jti` (RFC 7519), as the API server writes it. */
export function credentialOf(token: string): string {
  const [, claims = ""] = token.split(".");
  return `JTI=${(JSON.parse(Buffer.from(claims, "base64url").toString()) as { jti: string }).jti}`;
}
