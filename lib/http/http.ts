/**
 * node:http, loaded without `import`. An `import` reads every export to build the ES module namespace, and the
 * WebSocket export loads undici, web streams, http2 and zlib: 6 to 9 MB that no process uses.
 */
export const http = process.getBuiltinModule("node:http");
