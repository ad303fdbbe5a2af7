import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * Opens a secret address in the person's browser. Every user of the machine can see the arguments of a process. So
 * the browser gets a file that only its owner can read, and which leads to the address. @returns undefined without a
 * screen; else an object that removes the file.
 */
export async function openInBrowser(
  address: string,
  env: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform = process.platform,
): Promise<{ remove(): Promise<void> } | undefined> {
  const command = openerOf(platform, env);
  if (command === undefined) return undefined;
  const folder = await mkdtemp(join(tmpdir(), "switchback-dashboard-"));
  const file = join(folder, "open.html");
  await writeFile(file, `<!doctype html><meta http-equiv="refresh" content="0; url=${address}">\n`, { mode: 0o600 });
  const [program, ...args] = command;
  const child = spawn(program, [...args, pathToFileURL(file).href], { stdio: "ignore", detached: true });
  // A person without a browser here can use the printed address elsewhere.
  child.once("error", () => {});
  child.unref();
  return { remove: () => rm(folder, { recursive: true, force: true }) };
}

/** The command that opens an address on this desktop; undefined without a desktop. */
function openerOf(
  platform: NodeJS.Platform,
  env: Readonly<Record<string, string | undefined>>,
): readonly [string, ...string[]] | undefined {
  if (platform === "darwin") return ["open"];
  if (platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  return env.DISPLAY || env.WAYLAND_DISPLAY ? ["xdg-open"] : undefined;
}
