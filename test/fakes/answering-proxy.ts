import { createServer } from "node:http";
import type { TestContext } from "node:test";
import { ANSWERS_PATH, type ReportedAnswer, renderAnswers } from "#lib/documents/header-questions.ts";
import { LISTENING_PATH } from "#lib/documents/proxy-listening-page.ts";
import type { MemoryKube } from "./memory-kube.ts";

/** The address of the proxy. */
export const PROXY = "127.0.0.1";

interface ProxyPages {
  readonly answers: () => readonly ReportedAnswer[];
  /** Returns names of targets. */
  readonly listening: () => Iterable<string>;
}

/** A proxy that serves only the pages that the controller reads. Returns its health port. */
export async function answeringProxy(t: TestContext, { answers, listening }: ProxyPages): Promise<number> {
  const server = createServer(({ url }, response) => {
    const body = url === ANSWERS_PATH ? renderAnswers(answers()).body : JSON.stringify({ listening: [...listening()] });
    response.writeHead(url === ANSWERS_PATH || url === LISTENING_PATH ? 200 : 404).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, PROXY, resolve));
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

/** Adds the only ready proxy. */
export function putProxy(kube: MemoryKube): void {
  kube.put("/apis/discovery.k8s.io/v1/namespaces/switchback-system/endpointslices/switchback-proxy-1", {
    metadata: { labels: { "kubernetes.io/service-name": "switchback-proxy" } },
    addressType: "IPv4",
    endpoints: [{ addresses: [PROXY], conditions: { ready: true } }],
  });
}
