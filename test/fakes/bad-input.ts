import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runHere, switchback, useFiles } from "./cli.ts";
import { type FakeApi, fakeApi, type Responder, refuse } from "./kube-api.ts";

/** A command line that the program refuses. */
export interface BadInput {
  readonly what: string;
  /** `FILE` stands for the path of `file`, and `DIR` for the folder with `files`. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Content of a file. */
  readonly file?: string | Buffer;
  /** Content of several files, by path below `DIR`. */
  readonly files?: Readonly<Record<string, string | Buffer>>;
  /** Standard input. With it, the command runs as a process; without it, the command runs in this process. */
  readonly input?: string;
  /** Matches all or part of standard error. */
  readonly says: RegExp;
  /** Whether `says` is only about the last line. */
  readonly isLast?: boolean;
  /** Default: 2. */
  readonly code?: number;
  /** The API server's answers. Default: the command sends no request. */
  readonly api?: Responder;
  /** Standard output before the error. Default: nothing. */
  readonly stdout?: RegExp;
}

/**
 * One test for each case. It checks the exit code and the error text. It also checks that the command changes
 * nothing, and prints nothing that a script could take for the result.
 */
export function walk(title: string, cases: readonly BadInput[]): void {
  describe(title, { concurrency: 4 }, () => {
    const files = useFiles();
    for (const [index, bad] of cases.entries()) {
      it(`${bad.what}: ${bad.args.join(" ")}`, async () => {
        const path = bad.file === undefined ? "" : await files.file(`file-${index}`, bad.file);
        const folder = await files.folder(`folder-${index}`, bad.files ?? {});
        const api = await fakeApi(bad.api ?? refuse(404, "NotFound"));
        try {
          await runOne(
            bad,
            { FILE: path, DIR: folder },
            api,
            await files.file(`kubeconfig-${index}`, files.kubeconfigText(api.url)),
          );
        } finally {
          await api.close();
        }
      });
    }
  });
}

async function runOne(
  bad: BadInput,
  paths: Readonly<Record<"FILE" | "DIR", string>>,
  api: FakeApi,
  kubeconfig: string,
): Promise<void> {
  const args = bad.args.map((arg) => arg.replace(/FILE|DIR/, (word) => paths[word as keyof typeof paths]));
  const env = { KUBECONFIG: kubeconfig, ...bad.env };
  const { code, stdout, stderr } = await (bad.input === undefined
    ? runHere(args, env)
    : switchback(args, env, bad.input));
  assert.match(bad.isLast ? (stderr.trimEnd().split("\n").at(-1) ?? "") : stderr, bad.says);
  assert.doesNotMatch(stderr, /^\s+at /m, "a stack trace is for us");
  assert.ok(stderr.trimEnd().split("\n").length <= 5, stderr);
  assert.equal(code, bad.code ?? 2, stderr);
  assert.match(stdout, bad.stdout ?? /^$/);
  if (bad.api === undefined) assert.deepEqual(api.calls, [], "the API server is asked for nothing");
  assert.deepEqual(
    api.calls.filter(({ method }) => method !== "GET"),
    [],
    "nothing is changed",
  );
}
