import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** The fields of an audit.k8s.io/v1 Event that the tests read. */
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

/** The chart's ClusterRole for people and pipelines. `System.person` binds it to a group of its name. */
export const READER = "switchback-reader";

/** The API server's audit log of our accounts and of these people. A watch is in the log once it has begun. */
export class AuditLog {
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, "audit.log");
  }

  /** Writes the audit policy and returns the API server's flags. */
  static async prepare(folder: string, namespace: string): Promise<string[]> {
    const users = ["controller", "webhook", "proxy", "dns", "uninstall"].map(
      (component) => `system:serviceaccount:${namespace}:switchback-${component}`,
    );
    const policy = {
      apiVersion: "audit.k8s.io/v1",
      kind: "Policy",
      omitStages: ["RequestReceived"],
      rules: [{ level: "Metadata", users }, { level: "Metadata", userGroups: [READER] }, { level: "None" }],
    };
    await writeFile(join(folder, "audit.yaml"), JSON.stringify(policy));
    return [`--audit-policy-file=${join(folder, "audit.yaml")}`, `--audit-log-path=${join(folder, "audit.log")}`];
  }

  /** All entries so far, in order, without a line that is still being written. */
  async entries(): Promise<AuditEntry[]> {
    const lines = (await readFile(this.#file, "utf8")).split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as AuditEntry);
  }

  /** The entries of one replica. */
  async of({ credential }: { readonly credential: string }): Promise<AuditEntry[]> {
    return (await this.entries()).filter(({ user }) => user.extra?.[CREDENTIAL]?.includes(credential));
  }
}

/** The id of a ServiceAccount's token: the claim `jti` (RFC 7519), as the API server writes it. */
export function credentialOf(token: string): string {
  const [, claims = ""] = token.split(".");
  return `JTI=${(JSON.parse(Buffer.from(claims, "base64url").toString()) as { jti: string }).jti}`;
}
