import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Cluster } from "./cluster.ts";
import { collectLogs } from "./logs.ts";

/** Pods in different namespaces: one has restarted, one has an init container, and one has not started. */
const PODS = {
  items: [
    {
      metadata: { namespace: "shop", name: "web-1" },
      status: { containerStatuses: [{ name: "main", restartCount: 2 }] },
    },
    {
      metadata: { namespace: "kube-system", name: "dns" },
      status: {
        initContainerStatuses: [{ name: "first", restartCount: 0 }],
        containerStatuses: [{ name: "main", restartCount: 0 }],
      },
    },
    { metadata: { namespace: "shop", name: "pending" }, status: {} },
  ],
};

/** Answers `get pods -o json` with `pods`, and each other command with its own text. */
function cluster(pods: string): Cluster {
  const tool = async (_: string, args: string[]) => {
    const line = args.join(" ");
    return { code: 0, stdout: line === "get pods -A -o json" ? pods : line, stderr: "" };
  };
  return new Cluster({ tool, program: () => Promise.reject(new Error("not here")) });
}

let folders: string[];
before(() => {
  folders = [];
});
after(async () => {
  for (const folder of folders) await rm(folder, { recursive: true });
});

async function collect(pods: string, components?: string): Promise<string> {
  const folder = await collectLogs(cluster(pods), components);
  folders.push(folder);
  return folder;
}

test("on another cluster, the logs of all containers are kept, including those from before a restart", async () => {
  const logs = join(await collect(JSON.stringify(PODS)), "logs");
  assert.deepEqual((await readdir(logs)).sort(), [
    "kube-system_dns_first.log",
    "kube-system_dns_main.log",
    "shop_web-1_main.log",
    "shop_web-1_main.previous.log",
  ]);
  const read = (name: string) => readFile(join(logs, name), "utf8");
  assert.match(await read("kube-system_dns_first.log"), /^-n kube-system logs dns -c first /);
  assert.match(await read("shop_web-1_main.previous.log"), / --previous$/);
});

test("on this machine's node, its log folder is kept, with the logs of components and pods", async () => {
  const components = await mkdtemp(join(tmpdir(), "switchback-logs-"));
  folders.push(components);
  await mkdir(join(components, "pods"));
  await writeFile(join(components, "pods", "0.log"), "of a pod");
  const folder = await collect(JSON.stringify(PODS), components);
  assert.deepEqual(await readdir(join(folder, "logs"), { recursive: true }), ["pods", join("pods", "0.log")]);
});

test("if a cluster does not answer, its error message is kept instead", async () => {
  const folder = await collect("no such host");
  assert.deepEqual(await readdir(join(folder, "logs")), []);
  assert.equal(await readFile(join(folder, "pods.txt"), "utf8"), "get pods -A -o wide");
});
