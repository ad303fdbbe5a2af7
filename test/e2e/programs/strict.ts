import { createServer as createWebServer } from "node:http";
import { createServer, type Socket } from "node:net";

// A stand-in for an ingress controller. It listens at port 8080 and resets connections without a PROXY header of
// version 1. It answers other requests with the client's address from the header. It answers /slow after 3 s, and
// /stream in pieces for 20 s. This file imports no other file.

const MAX_HEADER = 107;
const clients = new WeakMap<Socket, string>();

const web = createWebServer((request, response) => {
  const address = clients.get(request.socket) ?? "";
  if (request.url === "/slow") return void setTimeout(() => response.end(address), 3_000);
  if (request.url !== "/stream") return void response.end(address);
  let left = 40;
  const timer = setInterval(() => {
    response.write(`${address}\n`);
    if (--left > 0) return;
    clearInterval(timer);
    response.end();
  }, 500);
});

createServer((socket) => {
  let bytes = Buffer.alloc(0);
  const read = () => {
    bytes = Buffer.concat([bytes, socket.read() ?? Buffer.alloc(0)]);
    const text = bytes.toString("latin1");
    const end = text.indexOf("\r\n");
    if (!text.startsWith("PROXY ".slice(0, text.length)) || (end < 0 && text.length > MAX_HEADER)) {
      return socket.resetAndDestroy();
    }
    if (end < 0) return;
    const [, address = ""] = /^PROXY TCP[46] (\S+) /.exec(text) ?? [];
    clients.set(socket, address);
    socket.off("readable", read);
    socket.unshift(bytes.subarray(end + 2));
    web.emit("connection", socket);
  };
  socket.on("error", () => {}).on("readable", read);
}).listen(8080);
