import { globSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackedDebian, withMissing } from "../../cluster/debian.ts";
import type { Place, Ports, Start } from "./software.ts";

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
} as const;
export type NginxMode = keyof typeof NGINX_MODES;

export const startNginx: Start<NginxMode> = async (modes, place) => {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((one) => `${one}_temp_path ${one};\n`);
  const servers = modes.map(([mode, { http, tls }]) => {
    const [listen, list] = NGINX_MODES[mode];
    const trust = list === "" ? "" : `real_ip_header proxy_protocol; set_real_ip_from ${list};`;
    return `server {
  listen 127.0.0.1:${http} ${listen};
  listen 127.0.0.1:${tls} ssl ${listen};
  ${trust}
  return 404;
}`;
  });
  const text = `daemon off;
pid pid;
# As ingress-nginx sets it unless its ConfigMap says otherwise.
error_log stderr notice;
events {}
http {
access_log off;
ssl_certificate ${place.cert};
ssl_certificate_key ${place.key};
${temporary.join("")}${servers.join("\n")}
}
`;
  const file = await write(place, text);
  return [...(await debian("nginx")), "-p", place.folder, "-e", "stderr", "-c", file];
};

export const HAPROXY_MODES = {
  "no PROXY protocol": ["", ""],
  "accept-proxy": ["accept-proxy", ""],
  "expect-proxy, list with the proxies": ["", "127.0.0.0/8"],
  "expect-proxy, list without the proxies": ["", "192.0.2.0/24"],
} as const;
export type HaproxyMode = keyof typeof HAPROXY_MODES;

export const startHaproxy: Start<HaproxyMode> = async (modes, place) => {
  const frontends = modes.map(([mode, ports], index) => {
    const [accept, list] = HAPROXY_MODES[mode];
    const expect = list === "" ? "" : `tcp-request connection expect-proxy layer4 if { src ${list} }`;
    return haproxyFrontend(`mode${index}`, ports, accept, expect, place);
  });
  const text = `defaults
  mode http
  log stdout format raw local0
  option httplog
  timeout client 30s
${frontends.join("")}`;
  return [...(await debian("haproxy")), "-db", "-f", await write(place, text)];
};

function haproxyFrontend(name: string, { http, tls }: Ports, accept: string, expect: string, { pem }: Place): string {
  return `frontend ${name}
  bind 127.0.0.1:${http} ${accept}
  bind 127.0.0.1:${tls} ssl crt ${pem} ${accept}
  ${expect}
  http-request return status 404
`;
}

export async function write({ folder }: Place, text: string): Promise<string> {
  const file = join(folder, "configuration");
  await writeFile(file, text);
  return file;
}
