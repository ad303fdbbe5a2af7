import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { HeaderAnswer, ReportedAnswer } from "#lib/documents/header-questions.ts";
import { questionsIn, targetsIn } from "../published.ts";
import { answeringProxy, putProxy } from "./answering-proxy.ts";
import { configMaps, controllerRig, NAME } from "./controller-rig.ts";
import { until } from "./kube-api.ts";

/** The controller with one proxy, whose page has the answers that the test sets. */
export async function headerRig(t: TestContext, setting: Parameters<typeof controllerRig>[1] = {}) {
  const answers = new Map<string, ReportedAnswer>();
  const targets = new Set<string>();
  const healthPort = await answeringProxy(t, { answers: () => [...answers.values()], listening: () => targets });
  const { config = {}, prepare } = setting;
  const rig = await controllerRig(t, {
    ...setting,
    config: {
      ...config,
      discovery: { detect: true, ...(config.discovery as object) },
      proxy: { healthPort },
      map: { vanishSeconds: 0 },
    },
    prepare: (kube) => {
      putProxy(kube);
      prepare?.(kube);
    },
  });
  const questions = () => questionsIn(configMaps(rig.kube));
  const reason = async () => (await rig.status()).names.find(({ name }) => name === NAME)?.reason?.code;
  let ticks = Date.parse("2026-11-26T05:00:00Z");
  return {
    ...rig,
    questions,
    /** Makes the proxy listen for this target. */
    listen: (target: string) => void targets.add(target),
    /** Sets the answer of the target's ports, and makes the proxy listen for the target. */
    answer(target: string, given: HeaderAnswer, ...ports: readonly number[]) {
      targets.add(target);
      ticks += 1000;
      const at = new Date(ticks).toISOString();
      for (const port of ports) answers.set(`${target}:${port}`, { target, port, answer: given, at });
    },
    /** The protocol of each port, by target, as published to the proxies. */
    published(): Record<string, string> {
      const text = (ports: readonly { readonly port: number; readonly protocol: string }[]) =>
        ports.map(({ port, protocol }) => `${port} ${protocol}`).join(", ");
      return Object.fromEntries(targetsIn(configMaps(rig.kube)).targets.map(({ name, ports }) => [name, text(ports)]));
    },
    /** Waits until this is the reason why the name is not mapped; undefined: until it is mapped. */
    async untilReason(expected: string | undefined): Promise<void> {
      for (let tries = 0; (await reason()) !== expected; tries += 1) {
        assert.ok(tries < 500, `${await reason()} instead of ${expected}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    untilAsked: (count: number) => until(() => questions().length === count, `${count} questions`),
  };
}
