import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { bareEnvironment } from "../../processes.ts";
import { progressLines } from "../progress.ts";
import { type Daemon, until } from "./daemons.ts";
import { requireNoKubelet, requirePrograms } from "./requirements.ts";

// If a machine lacks something, one line says what is wrong, and where.

const MAIN = join(import.meta.dirname, "main.ts");

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "switchback-requirements-"));
});
after(() => rm(folder, { recursive: true }));

describe("the command", () => {
  /** The command takes every user for one without root. If it continues despite that, it finds no program to start. */
  const notRoot = ["--import", "data:text/javascript,process.getuid = () => 1000"];
  const command = (...args: string[]) =>
    spawnSync(process.execPath, [...notRoot, MAIN, ...args], {
      encoding: "utf8",
      env: { ...bareEnvironment(), PATH: "/nonexistent" },
    });

  for (const args of [["up"], ["up", "--bare"], ["up", "--network-policies", "--bare"], ["kubectl", "get", "pods"]]) {
    test(`\`${args.join(" ")}\` without root`, () => {
      const { status, stderr } = command(...args);
      assert.match(stderr, /^a node needs (root|Linux)[^\n]+\n$/);
      assert.equal(status, 1);
    });
  }

  for (const args of [[], ["restart"], ["up", "--quick"], ["up", "--bare", "now"], ["down", "--all"]]) {
    test(`\`${args.join(" ")}\` is not one of its commands`, () => {
      const { status, stderr } = command(...args);
      assert.match(stderr, /^usage: npm run cluster:up [^\n]+\n$/);
      assert.equal(status, 2);
    });
  }
});

test("missing programs that cannot be installed are named by their packages", async () => {
  const { PATH } = process.env;
  process.env.PATH = folder;
  try {
    const progress = progressLines(() => assert.fail("nothing is installed"));
    const message = /^missing: (?=.*\biproute2\b)(?=.*\brunc\b)(?=.*\bmusl-tools\b)[^\n]+\(names of Debian packages\)$/;
    await assert.rejects(requirePrograms(progress), { name: "NotHere", message });
  } finally {
    process.env.PATH = PATH;
  }
});

test("an existing kubelet is left alone; a socket that our crash has left does not count as a kubelet", async () => {
  const socket = join(folder, "kubelet.sock");
  const none = join(folder, "none");
  await requireNoKubelet(socket, none);
  await writeFile(socket, "");
  const taken = { name: "NotHere", message: new RegExp(`^${socket} is taken: this machine has a kubelet, [^\\n]+$`) };
  await assert.rejects(requireNoKubelet(socket, none), taken);
  await requireNoKubelet(socket, folder);
});

describe("a program of the cluster that ends", () => {
  const ended = async (text: string): Promise<Daemon> => {
    const log = join(folder, "program.log");
    await writeFile(log, `first line\n${text}\n`);
    return { name: "program", pid: 0, log, exited: "code 1" };
  };
  const fine: Daemon = { name: "fine", pid: 0, log: "", exited: undefined };
  const wait = (daemon: Daemon) => until("it is ready", 60, async () => "not ready", fine, daemon);

  // Messages of etcd, kube-apiserver, Pebble and HAProxy.
  for (const [line, what] of [
    [
      `{"level":"fatal","msg":"discovery failed","error":"listen tcp 127.0.0.1:2379: bind: address already in ` +
        `use","stacktrace":""}`,
      "127.0.0.1:2379: address already in use",
    ],
    [
      `E1122 00:43:58 run.go:72] "command failed" err="failed to create listener: failed to listen on ` +
        `192.0.2.10:6443: listen tcp 192.0.2.10:6443: bind: cannot assign requested address"`,
      "192.0.2.10:6443: cannot assign requested address",
    ],
    ["listen udp 192.0.2.53:53: bind: address already in use", "192.0.2.53:53: address already in use"],
    [
      "[ALERT]    (3792) : Binding [haproxy.cfg:7] for proxy nginx-http: cannot bind socket (Address already in " +
        "use) for [192.0.2.80:80]",
      "192.0.2.80:80: address already in use",
    ],
  ] as const) {
    test(`because of ${what}`, async () => {
      const message = `program cannot listen at ${what} (${join(folder, "program.log")})`;
      await assert.rejects(wait(await ended(line)), { name: "NotHere", message });
    });
  }

  test("for another reason is reported with the end of its log", async () => {
    await assert.rejects(wait(await ended("no such key")), {
      name: "Error",
      message: "program ended (code 1)\nfirst line\nno such key",
    });
  });
});
