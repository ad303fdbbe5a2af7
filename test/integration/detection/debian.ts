import { globSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackedDebian, withMissing } from "../../cluster/debian.ts";
import {
  type HaproxySetting,
  haproxyText,
  type NginxSetting,
  nginxText,
  type ReceiverPlace,
} from "../../cluster/receivers.ts";
import type { Start } from "./software.ts";

/** The command line of a program of Debian's package of this name, with the libraries that this machine lacks. */
export async function debian(name: "nginx" | "haproxy"): Promise<readonly [string, ...string[]]> {
  const root = await unpackedDebian(name, () => withMissing(name));
  const libraries = globSync("usr/lib/*-linux-gnu", { cwd: root }).map((path) => join(root, path));
  return ["env", `LD_LIBRARY_PATH=${libraries.join(":")}`, join(root, "usr/sbin", name)];
}

export const NGINX_MODES = {
  "no PROXY protocol": ["", ""],
  "listen ... proxy_protocol": ["proxy_protocol", ""],
  "listen ... proxy_protocol, list with the proxies": ["proxy_protocol", "127.0.0.0/8"],
  "listen ... proxy_protocol, list without the proxies": ["proxy_protocol", "192.0.2.0/24"],
} as const satisfies Record<string, NginxSetting>;
export type NginxMode = keyof typeof NGINX_MODES;

export const startNginx: Start<NginxMode> = async (modes, place) => {
  const settings = modes.map(([mode, ports]) => [NGINX_MODES[mode], ports] as const);
  const file = await write(place, nginxText(settings, place, "404"));
  return [...(await debian("nginx")), "-p", place.temporary, "-e", "stderr", "-c", file];
};

export const HAPROXY_MODES = {
  "no PROXY protocol": ["", ""],
  "accept-proxy": ["accept-proxy", ""],
  "expect-proxy, list with the proxies": ["", "127.0.0.0/8"],
  "expect-proxy, list without the proxies": ["", "192.0.2.0/24"],
} as const satisfies Record<string, HaproxySetting>;
export type HaproxyMode = keyof typeof HAPROXY_MODES;

export const startHaproxy: Start<HaproxyMode> = async (modes, place) => {
  const settings = modes.map(([mode, ports]) => [HAPROXY_MODES[mode], ports] as const);
  return [...(await debian("haproxy")), "-db", "-f", await write(place, haproxyText(settings, place, "status 404"))];
};

export async function write({ temporary }: ReceiverPlace, text: string): Promise<string> {
  const file = join(temporary, "configuration");
  await writeFile(file, text);
  return file;
}
