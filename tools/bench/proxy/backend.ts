import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Pattern } from "../pattern.ts";
import { type ProxyProcess, startProcess } from "./process.ts";

const MIB = 1024 * 1024;

/** Sizes of the responses of the web server behind the proxies. Every byte is known. */
export const BODIES = { small: 128, "64k": 64 * 1024, "1m": MIB, bulk: 256 * MIB } as const;
export type Body = keyof typeof BODIES;

/** All bodies have the same start. */
export const BODY = new Pattern(1);

/** Writes the bodies into a folder that should be in memory (a tmpfs or the page cache). */
export function writeBodies(folder: string): void {
  const root = join(folder, "www");
  mkdirSync(root, { recursive: true });
  for (const [name, size] of Object.entries(BODIES)) {
    const file = openSync(join(root, name), "w");
    for (let done = 0; done < size; done += MIB) writeSync(file, BODY.slice(done, Math.min(MIB, size - done)));
    closeSync(file);
  }
}

/**
 * Starts an nginx that accepts only connections with a PROXY header, like an ingress controller behind a load
 * balancer.
 */
export function startBackend(folder: string, port: number, cpus: string): ProxyProcess {
  const own = join(folder, "backend");
  mkdirSync(own, { recursive: true });
  execFileSync("chmod", ["777", own]);
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${own}/${name};`);
  const config = `daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid ${own}/pid;
events { worker_connections 12000; }
http {
  ${paths.join("\n  ")}
  access_log off;
  default_type application/octet-stream;
  sendfile on;
  tcp_nodelay on;
  etag off;
  open_file_cache max=16;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_header_timeout 300s;
  server {
    listen 127.0.0.1:${port} proxy_protocol backlog=4096;
    root ${join(folder, "www")};
  }
}
`;
  const file = join(own, "nginx.conf");
  writeFileSync(file, config);
  return startProcess(["nginx", "-e", join(own, "error.log"), "-c", file], join(own, "log"), cpus);
}
