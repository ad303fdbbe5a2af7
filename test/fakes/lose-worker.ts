import { closeSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

const LISTEN = "0A";

// Preloaded (`node --import`) into a process with two workers of the linux engine. SIGUSR2 closes one worker's epoll
// set. The worker must notice this within a second, and end. The set's descriptor then leads to /dev/null, so that no
// other file gets its number.

process.on("SIGUSR2", () => {
  const names = readdirSync("/proc/self/fd");
  const listening = new Set(sharedListeners());
  const sockets = names.filter((name) => listening.has(/^socket:\[(\d+)\]$/.exec(linkOf(name))?.[1] ?? ""));
  const sets = names.filter((name) => linkOf(name) === "anon_inode:[eventpoll]");
  // Node also has epoll sets. Only the workers' sets watch a listener that shares its port.
  const ofWorkers = sets.filter((name) => watchedBy(name).some((watched) => sockets.includes(watched)));
  const lost = Number(ofWorkers[0]);
  closeSync(lost);
  while (openSync("/dev/null", "r") !== lost);
});

/** Inodes of the IPv4 sockets that share their listening address with another socket. */
function sharedListeners(): string[] {
  const rows = readFileSync("/proc/self/net/tcp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === LISTEN);
  const byAddress = Map.groupBy(rows, (fields) => fields[1]);
  return [...byAddress.values()].flatMap((group) => (group.length > 1 ? group.map((fields) => fields[9] ?? "") : []));
}

function linkOf(name: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${name}`);
  } catch {
    return "";
  }
}

function watchedBy(epoll: string): string[] {
  const info = readFileSync(`/proc/self/fdinfo/${epoll}`, "utf8");
  return [...info.matchAll(/^tfd:\s*(\d+)/gm)].map(([, fd]) => fd ?? "");
}
