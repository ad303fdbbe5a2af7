import { createServer } from "node:http";
import type { TestContext } from "node:test";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { PROXY_PAGE, renderProxyPage } from "#lib/documents/proxy-page.ts";
import type { MemoryKube } from "./memory-kube.ts";

/** The address of the proxy. */
const PROXY = "127.0.0.1";

/** The answer of a port. */
export interface GivenAnswer {
  readonly target: string;
  readonly port: number;
  readonly answer: HeaderAnswer;
}

interface ProxyPages {
  readonly answers: () => readonly GivenAnswer[];
  /** Returns names of targets. */
  readonly listening: () => Iterable<string>;
}

/**
 * A proxy that serves only the page that the controller reads. Between two reads it has asked each port again. Returns
 * its health port.
 */
export async function answeringProxy(t: TestContext, { answers, listening }: ProxyPages): Promise<number> {
  let count = 0;
  const server = createServer(({ url }, response) => {
    count += 1;
    const page = { listening: [...listening()], answers: answers().map((each) => ({ ...each, count })) };
    response.writeHead(url === PROXY_PAGE ? 200 : 404).end(renderProxyPage(page).body);
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
