import assert from "node:assert/strict";
import { test } from "node:test";
import { DNS_HEALTH_NAME } from "./health-name.ts";
import { waitForPeerResolver } from "./wait-for-peer-resolver.ts";

const NEW = `new.${DNS_HEALTH_NAME}`;

/** What the Service answers to each question in turn; at the end the signal fires. */
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

test("the second resolver starts once the first answers as this rollout, five times in a row", async () => {
  const five = ["new", "new", "new", "new", "new"] as const;
  assert.deepEqual(await waits("old", "new", "new", "old", ...five, "old"), { questions: 8, ended: true });
});

test("it waits for as long as the first one answers as the rollout before", async () => {
  assert.deepEqual(await waits(...Array<"old">(600).fill("old")), { questions: 600, ended: false });
});

test("a first resolver that answers nothing is not waited for, one that answers now and then is", async () => {
  assert.deepEqual(await waits("none", "none", "none", "old"), { questions: 2, ended: true });
  assert.deepEqual(await waits("none", "none", "old", "none", "none", "old"), { questions: 6, ended: false });
});
