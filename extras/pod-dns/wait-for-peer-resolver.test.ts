import assert from "node:assert/strict";
import { test } from "node:test";
import { DNS_HEALTH_NAME } from "./health-name.ts";
import { waitForPeerResolver } from "./wait-for-peer-resolver.ts";

const NEW = `new.${DNS_HEALTH_NAME}`;

/** Waits for a Service that gives these answers, one for each question. After the last one, the signal fires. */
async function waits(...answers: ("new" | "old" | "none")[]): Promise<{ questions: number; ended: boolean }> {
  const stopping = new AbortController();
  let questions = 0;
  await waitForPeerResolver({
    service: "switchback-dns-a",
    revision: "new",
    signal: stopping.signal,
    async answers(_, name) {
      const pod = answers[questions];
      return pod === "new" || (pod === "old" && name !== NEW);
    },
    async nextQuestion() {
      questions += 1;
      if (questions === answers.length) stopping.abort();
    },
  });
  return { questions, ended: !stopping.signal.aborted };
}

test("the second resolver starts when the first has answered for this rollout five times in a row", async () => {
  const five = ["new", "new", "new", "new", "new"] as const;
  assert.deepEqual(await waits("old", "new", "new", "old", ...five, "old"), { questions: 8, ended: true });
});

test("the second resolver waits while the first answers for the previous rollout", async () => {
  assert.deepEqual(await waits(...Array<"old">(600).fill("old")), { questions: 600, ended: false });
});

test("the second resolver does not wait if the first never answers, but waits if it answers sometimes", async () => {
  assert.deepEqual(await waits("none", "none", "none", "old"), { questions: 2, ended: true });
  assert.deepEqual(await waits("none", "none", "old", "none", "none", "old"), { questions: 6, ended: false });
});
