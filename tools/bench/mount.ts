// For `node --import`: acts as the kubelet's mount of a service account, so that a component connects as it does in a
// pod. With a kubeconfig, the component would load a library of 88 MB that no pod loads, and its memory would differ
// from a pod's. An `import` of node:fs would cost each start time that a pod's start does not need
// (manifests/bundle.ts).

const fs = process.getBuiltinModule("node:fs");

const MOUNTED = "/var/run/secrets/kubernetes.io/serviceaccount/";
const from = process.env.BENCH_SERVICE_ACCOUNT ?? "";

function mounted<P>(path: P): P | string {
  return typeof path === "string" && path.startsWith(MOUNTED) ? path.replace(MOUNTED, `${from}/`) : path;
}

const { existsSync } = fs;
const { readFile } = fs.promises;
fs.existsSync = (path) => existsSync(mounted(path));
fs.promises.readFile = ((...[path, options]: Parameters<typeof readFile>) =>
  readFile(mounted(path), options)) as typeof readFile;
process.getBuiltinModule("node:module").syncBuiltinESMExports();

// SIGUSR2 writes the longest time, in milliseconds, that the event loop was busy since the signal before.
const slices = process.env.BENCH_SLICES ?? "";
if (slices !== "") {
  const busy = process.getBuiltinModule("node:perf_hooks").monitorEventLoopDelay({ resolution: 1 });
  busy.enable();
  process.on("SIGUSR2", () => {
    fs.writeFileSync(`${slices}.new`, String(busy.max / 1e6));
    fs.renameSync(`${slices}.new`, slices);
    busy.reset();
  });
}
