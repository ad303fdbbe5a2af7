import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { HeaderAnswer, ReportedAnswer } from "#lib/documents/header-questions.ts";
import { answeringProxy, PROXY, putProxy } from "#test/fakes/answering-proxy.ts";
import { type ControllerRig, configMaps, controllerRig, lines, NAME } from "#test/fakes/controller-rig.ts";
import { until } from "#test/fakes/kube-api.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";
import { questionsIn } from "#test/published.ts";

// The controller with one proxy. The test sets the answers of that proxy.

async function scriptedProxy(t: TestContext) {
  const answers: { current: readonly ReportedAnswer[] } = { current: [] };
  const targets = new Set<string>();
  const port = await answeringProxy(t, { answers: () => answers.current, listening: () => targets });
  let ticks = Date.parse("2026-11-26T05:00:00Z");
  const listen = (target: string) => void targets.add(target);
  const answer = (target: string, given: HeaderAnswer) => {
    listen(target);
    ticks += 1000;
    const at = new Date(ticks).toISOString();
    answers.current = [{ target, port: 443, answer: given, at }];
  };
  return { port, answer, listen };
}

function putBalancer(kube: MemoryKube, annotations: Readonly<Record<string, string>> = {}): void {
  const ingress = [{ ip: "192.0.2.81" }];
  kube.put("/api/v1/namespaces/edge/services/lb", {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z", annotations },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.81"], ports: [{ port: 443, protocol: "TCP" }] },
    status: { loadBalancer: { ingress } },
  });
  kube.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", {
    metadata: { creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { ingressClassName: "edge", rules: [{ host: NAME }] },
    status: { loadBalancer: { ingress } },
  });
}

async function rigWithProxy(t: TestContext, annotations?: Readonly<Record<string, string>>, kube?: MemoryKube) {
  const proxy = await scriptedProxy(t);
  const rig = await controllerRig(t, {
    config: {
      discovery: { detect: true },
      proxy: { healthPort: proxy.port },
      map: { vanishSeconds: 0 },
    },
    upstream: false,
    ...(kube && { kube }),
    prepare: (api) => {
      putProxy(api);
      putBalancer(api, annotations);
    },
  });
  return { rig, proxy };
}

const questions = ({ kube }: Pick<ControllerRig, "kube">) => questionsIn(configMaps(kube));

const reason = async ({ status }: ControllerRig) =>
  (await status()).names.find(({ name }) => name === NAME)?.reason?.code;

async function untilReason(rig: ControllerRig, expected: string | undefined): Promise<void> {
  for (let tries = 0; (await reason(rig)) !== expected; tries += 1) {
    assert.ok(tries < 500, `${await reason(rig)} instead of ${expected}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test("a name is mapped once its ingress controller is known to expect a header; later answers count too", async (t) => {
  const { rig, proxy } = await rigWithProxy(t);
  await until(() => questions(rig).length === 1, "the question");
  const [{ target, known, ...question }] = questions(rig) as [ReturnType<typeof questions>[number]];
  assert.deepEqual([question.asker, question.name, question.namespace], [PROXY, NAME, "edge"]);
  assert.equal(known, undefined);
  await untilReason(rig, "header-unknown");
  assert.equal(lines(rig), "", "nothing is mapped without an answer");

  proxy.answer(target, "demands-either");
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  await untilReason(rig, undefined);

  const { targets } = await rig.status();
  assert.deepEqual(targets.find(({ name }) => name === target)?.ports, [
    { port: 443, protocol: "v1", asked: { answer: "demands-either", at: "2026-11-26T05:00:01.000Z", asker: PROXY } },
  ]);

  proxy.answer(target, "refuses-header");
  await untilReason(rig, "header-not-expected");
  await until(() => !lines(rig).includes(NAME), "the name to go");

  proxy.answer(target, "demands-v2");
  await until(() => lines(rig).includes(NAME), "the name to be mapped again");
});

test("a new leader uses the answers of the previous one, and asks nothing again", async (t) => {
  const { rig, proxy } = await rigWithProxy(t);
  await until(() => questions(rig).length === 1, "the question");
  proxy.answer(questions(rig)[0]?.target ?? "", "demands-v2");
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  await rig.stop();
  const silent = await rigWithProxy(t, {}, rig.kube);
  await untilReason(silent.rig, undefined);
  assert.deepEqual(questions(silent.rig)[0]?.known?.answer, "demands-v2");
  assert.ok(lines(silent.rig).includes(NAME));
});

test("names that were mapped before the first question stay until there is an answer", async (t) => {
  const before = await controllerRig(t, { upstream: false, prepare: (kube) => putBalancer(kube) });
  await until(() => lines(before).includes(NAME), "the name to be mapped");
  await before.stop();
  const { rig, proxy } = await rigWithProxy(t, {}, before.kube);
  await until(() => questions(rig).length === 1, "the question");
  proxy.answer(questions(rig)[0]?.target ?? "", "unknown");
  await until(() => questions(rig)[0]?.known?.answer === "unknown", "the answer");
  await untilReason(rig, undefined);
  assert.ok(lines(rig).includes(NAME));
  proxy.answer(questions(rig)[0]?.target ?? "", "refuses-header");
  await until(() => !lines(rig).includes(NAME), "the name to go");
});

test("the Service's annotation decides, whatever the ingress controller answers", async (t) => {
  const { rig, proxy } = await rigWithProxy(t, { "switchback.dev/proxy-protocol": "v2" });
  await until(() => questions(rig).length === 1, "the question");
  proxy.listen(questions(rig)[0]?.target ?? "");
  await until(() => lines(rig).includes(NAME), "the name to be mapped");
  proxy.answer(questions(rig)[0]?.target ?? "", "refuses-header");
  await until(() => questions(rig)[0]?.known !== undefined, "the answer");
  await untilReason(rig, undefined);
  assert.ok(lines(rig).includes(NAME));
});

test("an annotation that contradicts the answer causes a warning and an Event", async (t) => {
  const { rig, proxy } = await rigWithProxy(t, { "switchback.dev/proxy-protocol": "none" });
  await until(() => questions(rig).length === 1, "the question");
  const warned = async () => (await rig.status()).warnings.filter(({ code }) => code === "header-contradicted");
  proxy.answer(questions(rig)[0]?.target ?? "", "optional");
  await until(() => questions(rig)[0]?.known !== undefined, "the answer");
  assert.deepEqual(await warned(), []);
  proxy.answer(questions(rig)[0]?.target ?? "", "demands-v1");
  await until(() => questions(rig)[0]?.known?.answer === "demands-v1", "the other answer");
  const [warning] = await warned();
  assert.match(warning?.text ?? "", /^Service edge\/lb, port 443: .* is "none", but it demands v1 /);
  const { targets } = await rig.status();
  assert.deepEqual(targets.find(({ name }) => name.includes("lb"))?.ports[0]?.asked?.warnings, [warning]);
  const { text: metrics } = await rig.page("/metrics");
  assert.match(metrics, /\nswitchback_controller_header_contradictions\{reason="header-contradicted"\} 1\n/);
  const path = "/apis/events.k8s.io/v1/namespaces/edge/events";
  const eventsOfEdge = () => rig.kube.paths(path).flatMap((each) => rig.kube.at(each) ?? []);
  // The contradiction has to last for 10 s.
  await until(() => eventsOfEdge().length > 0, "the Event", 60_000);
  const [event] = eventsOfEdge();
  assert.deepEqual([event?.reason, event?.note], ["HeaderContradicted", warning?.text]);
  const regarding = { apiVersion: "v1", kind: "Service", namespace: "edge", name: "lb" };
  assert.deepEqual({ ...(event?.regarding as object), uid: undefined }, { ...regarding, uid: undefined });
});
