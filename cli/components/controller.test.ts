import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { ProcessContext } from "#lib/process/running.ts";
import { startController } from "./controller.ts";

test("warns at the start if the configured cluster domain differs from its pod's", async () => {
  const resolvConf = "search ours.svc.cozy.local svc.cozy.local cozy.local\n";
  const codesWith = async (clusterDomain: string): Promise<unknown[]> => {
    const codes: unknown[] = [];
    const log = { warn: ({ code }: { readonly code?: unknown }) => codes.push(code) };
    const connect = () => Promise.reject(new Error("no cluster"));
    const context = { resolvConf, log, connect } as unknown as ProcessContext;
    await assert.rejects(startController(parseConfig({ clusterDomain }), context), /no cluster/);
    return codes;
  };
  assert.deepEqual(await codesWith("cluster.local"), ["cluster-domain-differs"]);
  assert.deepEqual(await codesWith("cozy.local"), []);
});
