/**
 * node:http, without what an `import` of it costs: Node reads every export for its ES module face, and the one called WebSocket loads
 * undici, web streams, http2 and zlib behind it, 6 to 9 MB of every process that never uses them.
 */
export const http = process.getBuiltinModule("node:http");
