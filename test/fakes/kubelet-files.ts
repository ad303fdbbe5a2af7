import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** The part of a kubelet's root directory that matters: `pods/<uid>/etc-hosts`. */
export interface KubeletFiles {
  readonly root: string;
  readonly pods: string;
  /** A pod's hosts file. */
  path(uid: string): string;
  /**
   * Writes the file as the kubelet does: it empties the file and then writes it, with the same inode. `own`: the
   * pod's own line. Returns the text.
   */
  write(uid: string, more?: string, own?: string): string;
}

/** The owner of the files: root for root, otherwise the current user. */
export const OWNER = process.getuid?.() ?? 0;

export function uidOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
}

export function kubeletText(more = "", own = "10.32.0.7\tapi-0"): string {
  return `# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n${own}\n${more}`;
}

/** The text that the kubelet adds for the hostAliases of a pod's spec. */
export function aliasesText(
  aliases: ReadonlyArray<{ readonly ip: string; readonly hostnames: readonly string[] }> = [],
) {
  if (aliases.length === 0) return "";
  const lines = aliases.map(({ ip, hostnames }) => `${ip}\t${hostnames.join("\t")}\n`);
  return `\n# Entries added by HostAliases.\n${lines.join("")}`;
}

/** Whether a line of the file, other than a comment, has this name. */
export function hasName(text: string, name: string): boolean {
  return new RegExp(`^[^#\\n]*\\s${name.replaceAll(".", "\\.")}(\\s|$)`, "m").test(text);
}

export function kubeletFiles(t: Pick<TestContext, "after">): KubeletFiles {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "switchback-kubelet-")));
  const pods = join(root, "pods");
  mkdirSync(pods);
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const path = (uid: string) => join(pods, uid, "etc-hosts");
  return {
    root,
    pods,
    path,
    write(uid, more, own) {
      mkdirSync(join(pods, uid), { recursive: true });
      const text = kubeletText(more, own);
      writeFileSync(path(uid), text, { mode: 0o644 });
      return text;
    },
  };
}
