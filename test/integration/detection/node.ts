import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Start } from "./software.ts";

export type NodeMode = "no PROXY protocol";

const PROGRAM = `
const { createServer } = require("node:http");
const { createServer: createTlsServer } = require("node:https");
const { readFileSync } = require("node:fs");
const [http, tls, key, cert] = process.argv.slice(2);
const answer = (_, response) => response.writeHead(404).end();
createServer(answer).listen(Number(http), "127.0.0.1");
createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, answer).listen(Number(tls), "127.0.0.1");
`;

export const startNode: Start<NodeMode> = async (modes, { folder, key, cert }) => {
  const file = join(folder, "server.cjs");
  await writeFile(file, PROGRAM);
  const ports = modes.flatMap(([, { http, tls }]) => [`${http}`, `${tls}`]);
  return [process.execPath, file, ...ports, key, cert];
};
