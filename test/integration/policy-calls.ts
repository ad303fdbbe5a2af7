import assert from "node:assert/strict";
import type { ControlPlane } from "../cluster/controlplane.ts";

// Calls of a real API server with stolen tokens, under the admission policies of the chart. Each call with a token is
// a dry run: it passes through admission and changes nothing.

interface Answer {
  readonly status: number;
  readonly message: string;
}

const APPLY = "application/apply-patch+yaml";

/** Functions that call the API server with the token of a holder, and as the admin. */
export function callsWith<Holder extends string>(
  cluster: () => ControlPlane,
  tokens: Readonly<Record<Holder, string>>,
) {
  async function send(
    holder: Holder,
    method: string,
    path: string,
    body?: object,
    contentType?: string,
  ): Promise<Answer> {
    const query = method === "PATCH" && contentType === APPLY ? "&fieldManager=thief&force=true" : "";
    const request = { method, path: `${path}?dryRun=All${query}`, token: tokens[holder] };
    const sent = body === undefined ? {} : { body: JSON.stringify(body), ...(contentType && { contentType }) };
    const answer = await cluster().call({ ...request, ...sent });
    return { status: answer.status, message: String((answer.body as { message?: string }).message ?? "") };
  }
  return {
    send,
    apply: (holder: Holder, path: string, body: object) => send(holder, "PATCH", path, body, APPLY),
    merge: (holder: Holder, path: string, body: object) =>
      send(holder, "PATCH", path, body, "application/merge-patch+json"),
    json: (holder: Holder, path: string, body: readonly object[]) =>
      send(holder, "PATCH", path, body, "application/json-patch+json"),
    async admin(method: string, path: string, body?: object): Promise<unknown> {
      const answer = await cluster().call({ method, path, ...(body && { body }) });
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
      return answer.body;
    },
  };
}

export function isDenied({ status, message }: Answer): boolean {
  return status === 403 && /ValidatingAdmissionPolicy 'switchback-[a-z-]+' .*denied request/.test(message);
}

export function assertDenied(answer: Answer): void {
  assert.ok(isDenied(answer), `${answer.status} ${answer.message}`);
}

export function assertPasses(answer: Answer): void {
  assert.ok(answer.status < 300, `${answer.status} ${answer.message}`);
}
